import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { InvalidSettingError } from '../../ground/errors.js'

/** A parsed password hash. `blockSize` and `parallelization` are scrypt's r and p. */
export interface PasswordHash {
  /** The logarithm, to base 2, of scrypt's N. */
  readonly costLog: number
  readonly blockSize: number
  readonly parallelization: number
  readonly salt: Buffer
  readonly key: Buffer
}

/** `$scrypt$ln=15,r=8,p=3$<salt>$<key>`, the last two in Base64 without padding (PHC string format). */
const PHC = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{43,86})$/

/**
 * The cost is as strong as OWASP's N = 2^17, p = 1 by its own table, for a quarter of the memory: 32 MiB per attempt.
 */
const COST_LOG = 15
const BLOCK_SIZE = 8
const PARALLELIZATION = 3
const SALT_BYTES = 16
const KEY_BYTES = 32

/** A lower cost does not protect; a higher one would let a sign-in take gigabytes. */
const COST_LOGS = { least: 12, most: 20 }
const MAX_BLOCK_SIZE = 32
const MAX_PARALLELIZATION = 16

/**
 * Hashes a password for `staffAccounts({ accounts })`.
 *
 * @throws InvalidSettingError for an empty password
 */
export async function hashPassword(password: string): Promise<string> {
  if (password === '') throw new InvalidSettingError('The password is empty: give one of 12 characters or more')
  const hash = {
    costLog: COST_LOG,
    blockSize: BLOCK_SIZE,
    parallelization: PARALLELIZATION,
    salt: randomBytes(SALT_BYTES),
    key: Buffer.alloc(KEY_BYTES),
  }
  const key = await derivePasswordKey(password, hash)
  return `$scrypt$ln=${COST_LOG},r=${BLOCK_SIZE},p=${PARALLELIZATION}$${base64(hash.salt)}$${base64(key)}`
}

/** Verifies a password. A wrong one takes as long as the right one; the event loop is never blocked. */
export async function verifyPassword(password: string, hash: PasswordHash): Promise<boolean> {
  return timingSafeEqual(await derivePasswordKey(password, hash), hash.key)
}

/**
 * Creates a function that returns a hash without a password for the name of an account that does not exist. It takes as
 * long to verify as one of `hashes`, always the same for a name, so that the time does not reveal which names exist.
 *
 * @param hashes at least one
 */
export function createDecoys(
  hashes: readonly PasswordHash[],
  secret: string,
): (name: string) => PasswordHash | undefined {
  const decoys = hashes.map((hash) => ({
    ...hash,
    salt: randomBytes(hash.salt.length),
    key: randomBytes(hash.key.length),
  }))
  return function decoyFor(name) {
    const mark = createHmac('sha256', secret).update(`decoy ${name}`).digest().readUInt32BE()
    return decoys[mark % decoys.length]
  }
}

/** Parses a result of `hashPassword`; returns undefined for anything else, such as a plain password. */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  const [, ln, r, p, salt = '', key = ''] = PHC.exec(text) ?? []
  const costLog = Number(ln)
  const blockSize = Number(r)
  const parallelization = Number(p)
  const inRange =
    costLog >= COST_LOGS.least &&
    costLog <= COST_LOGS.most &&
    blockSize >= 1 &&
    blockSize <= MAX_BLOCK_SIZE &&
    parallelization >= 1 &&
    parallelization <= MAX_PARALLELIZATION
  if (!inRange) return undefined
  return { costLog, blockSize, parallelization, salt: Buffer.from(salt, 'base64'), key: Buffer.from(key, 'base64') }
}

function derivePasswordKey(
  password: string,
  { costLog, blockSize, parallelization, salt, key }: PasswordHash,
): Promise<Buffer> {
  const options = {
    N: 2 ** costLog,
    r: blockSize,
    p: parallelization,
    // The memory that scrypt needs by its definition, and some room for the library.
    maxmem: 128 * blockSize * (2 ** costLog + parallelization) + 1024 * 1024,
  }
  return new Promise((resolve, reject) => {
    // Keyboards may send the same characters as different code points.
    scrypt(password.normalize('NFKC'), salt, key.length, options, (error, derived) => {
      if (error) reject(error)
      else resolve(derived)
    })
  })
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}

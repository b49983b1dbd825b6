/** The text of a token: `fsr_`, 30 random letters and digits, and a checksum of six. */
import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PREFIX = 'fsr_'
/** 178 bits. */
const RANDOM_LENGTH = 30
/** A checksum of 32 bits has six digits at most. */
const CHECKSUM_LENGTH = 6
const TOKEN = new RegExp(`^(${PREFIX}[0-9A-Za-z]{${RANDOM_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`)

export function createToken(): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => DIGITS[randomInt(DIGITS.length)]).join('')
  return `${PREFIX}${random}${checksumOf(`${PREFIX}${random}`)}`
}

/** Returns whether a text claims to be a token. Scanners find leaked tokens by the same beginning. */
export function looksLikeToken(text: string): boolean {
  return text.startsWith(PREFIX)
}

/** Returns whether a text has the form of a token, and the right checksum: no other one is looked up. */
export function isWellFormed(text: string): boolean {
  const [, body = '', checksum] = TOKEN.exec(text) ?? []
  return checksum !== undefined && checksum === checksumOf(body)
}

/** Returns what the table has of a token. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

function checksumOf(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let index = 0; index < CHECKSUM_LENGTH; index++) {
    digits = `${DIGITS[rest % DIGITS.length]}${digits}`
    rest = Math.floor(rest / DIGITS.length)
  }
  return digits
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/errors.js'
import {
  decoyOf,
  hashPassword,
  type PasswordHash,
  parsePasswordHash,
  verifyPassword,
} from '../../src/staff/passwords.js'

const PASSWORD = 'pässword with a ﬁne ligature'

function parsed(text: string): PasswordHash {
  const hash = parsePasswordHash(text)
  assert.ok(hash, text)
  return hash
}

test('a hash is in PHC form, is salted, and verifies its password and no other', async () => {
  const text = await hashPassword(PASSWORD)
  assert.match(text, /^\$scrypt\$ln=15,r=8,p=3\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  assert.notEqual(await hashPassword(PASSWORD), text)

  assert.equal(await verifyPassword(PASSWORD, parsed(text)), true)
  assert.equal(await verifyPassword(`${PASSWORD} `, parsed(text)), false)
  assert.equal(await verifyPassword('', parsed(text)), false)
})

test('a password is the same however its characters are composed', async () => {
  const hash = parsed(await hashPassword(PASSWORD))
  assert.equal(await verifyPassword(PASSWORD.normalize('NFD'), hash), true)
  assert.equal(await verifyPassword(PASSWORD.replace('ﬁ', 'fi'), hash), true)
})

test('an empty password cannot be hashed', async () => {
  await assert.rejects(hashPassword(''), InvalidSettingError)
})

test('a hash of another cost verifies too', async () => {
  // "secret" with N = 2^12, r = 8, p = 1 and the salt "saltsaltsaltsalt"
  const hash = parsed('$scrypt$ln=12,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$S5gYGjgdIiALCvyl5WSWbVNYpBGxt+Q0HB7x5yoYwog')
  assert.equal(await verifyPassword('secret', hash), true)
})

test('a decoy costs the same and has no password', async () => {
  const hash = parsed(await hashPassword(PASSWORD))
  const decoy = decoyOf(hash)
  const cost = ({ costLog, blockSize, parallelization, key }: PasswordHash) => [
    costLog,
    blockSize,
    parallelization,
    key.length,
  ]
  assert.deepEqual(cost(decoy), cost(hash))
  assert.equal(await verifyPassword(PASSWORD, decoy), false)
})

const SALT_AND_KEY = `${'A'.repeat(22)}$${'A'.repeat(43)}`
const NO_HASHES = [
  '',
  'secret',
  '$2b$12$KIXabcdefghijklmnopqrstuv',
  '$scrypt$',
  `$scrypt$ln=15,r=8,p=3$${'A'.repeat(22)}`,
  `$scrypt$ln=1,r=8,p=3$${SALT_AND_KEY}`,
  `$scrypt$ln=21,r=8,p=3$${SALT_AND_KEY}`,
  `$scrypt$ln=15,r=0,p=3$${SALT_AND_KEY}`,
  `$scrypt$ln=15,r=33,p=3$${SALT_AND_KEY}`,
  `$scrypt$ln=15,r=8,p=0$${SALT_AND_KEY}`,
  `$scrypt$ln=15,r=8,p=17$${SALT_AND_KEY}`,
  `$scrypt$ln=15,r=8,p=3$${SALT_AND_KEY}=`,
  ` $scrypt$ln=15,r=8,p=3$${SALT_AND_KEY}`,
]
for (const text of NO_HASHES) {
  test(`${JSON.stringify(text)} is no password hash`, () => assert.equal(parsePasswordHash(text), undefined))
}

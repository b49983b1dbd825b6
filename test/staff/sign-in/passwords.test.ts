import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../../src/ground/errors.js'
import {
  createDecoys,
  hashPassword,
  type PasswordHash,
  parsePasswordHash,
  verifyPassword,
} from '../../../src/staff/sign-in/passwords.js'
import { long } from '../../support/long.js'

const PASSWORD = 'pässword with a ﬁne ligature'

function parsed(text: string): PasswordHash {
  const hash = parsePasswordHash(text)
  assert.ok(hash, text)
  return hash
}

test('a hash is in PHC form, is salted, and verifies its password and no other', long(), async () => {
  const text = await hashPassword(PASSWORD)
  assert.match(text, /^\$scrypt\$ln=15,r=8,p=3\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  assert.notEqual(await hashPassword(PASSWORD), text)

  assert.equal(await verifyPassword(PASSWORD, parsed(text)), true)
  assert.equal(await verifyPassword(`${PASSWORD} `, parsed(text)), false)
  assert.equal(await verifyPassword('', parsed(text)), false)
})

test('a password is the same however its characters are composed', long(), async () => {
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

test('names without an account cost what accounts cost, each always the same, and have no password', async () => {
  const strong = parsed(await hashPassword(PASSWORD))
  const decoyFor = createDecoys([{ ...strong, costLog: 12 }, strong], 'secret')
  const names = Array.from({ length: 40 }, (_, place) => `name-${place}`)
  assert.deepEqual(new Set(names.map((name) => decoyFor(name)?.costLog)), new Set([12, strong.costLog]))
  for (const name of names) assert.equal(decoyFor(name), decoyFor(name))
  const decoy = decoyFor('nobody')
  assert.equal(decoy !== undefined && (await verifyPassword(PASSWORD, decoy)), false)
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

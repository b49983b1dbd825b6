import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parsePasswordHash, verifyPassword } from '../../src/staff/sign-in/passwords.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit hash-password', () => {
  test('prints a hash of what it reads from standard input, without the line break', async () => {
    const { status, stdout, stderr } = await ratelimit(['hash-password'], { input: 'correct horse \r\n' })
    assert.equal(status, 0)
    assert.equal(stderr, '')
    const hash = parsePasswordHash(stdout.trimEnd())
    assert.ok(hash)
    assert.equal(await verifyPassword('correct horse ', hash), true)
    assert.equal(await verifyPassword('correct horse', hash), false)
  })

  test('--json holds the hash, of a password without a line break too', async () => {
    const { stdout } = await ratelimit(['hash-password', '--json'], { input: 'correct horse' })
    const hash = parsePasswordHash(JSON.parse(stdout).hash)
    assert.ok(hash)
    assert.equal(await verifyPassword('correct horse', hash), true)
  })

  test('takes no password as an argument', async () => {
    const { status, stdout } = await ratelimit(['hash-password', 'correct horse'], { input: 'correct horse' })
    assert.equal(status, 2)
    assert.equal(stdout, '')
  })

  test('no password, and several lines, are wrong usage', async () => {
    for (const input of ['\n', 'one\ntwo\n']) {
      const { status, stdout, stderr } = await ratelimit(['hash-password'], { input })
      assert.equal(status, 2)
      assert.equal(stdout, '')
      assert.match(stderr, /^ratelimit hash-password: .*password.*\n$/)
    }
  })
})

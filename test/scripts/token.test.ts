import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listTokens, Tokens } from '../../src/staff/api/token-table.js'
import { createToken, hashToken, isWellFormed } from '../../src/staff/api/token-text.js'
import { atEnd } from '../support/at-end.js'
import { forAnyDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

test('a token has a prefix for scanners, and a checksum that finds typing errors', () => {
  const token = createToken()
  assert.match(token, /^fsr_[0-9A-Za-z]{36}$/)
  assert.notEqual(createToken(), token)
  assert.equal(isWellFormed(token), true)
  const swapped = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A')
  for (const wrong of ['', 'fsr_', `${token} `, `${token}A`, swapped, token.toUpperCase(), token.slice(4)]) {
    assert.equal(isWellFormed(wrong), false, wrong)
  }
})

forAnyDatabase((_provider, open) => {
  test('ratelimit token creates a token that it shows once, lists and revokes it', async (t) => {
    const opened = await open()
    atEnd(t, opened.close)
    const { database } = opened
    const schema = database.dialect.provider === 'sqlite' ? [] : ['--schema', opened.schema]
    const token = (...args: string[]) =>
      ratelimit(['token', ...args, ...schema], { env: { RATELIMIT_DATABASE_URL: opened.url } })

    const created = await token('create', '--name', 'ci', '--role', 'operator', '--for', '90d')
    const text = created.stdout.trim()
    assert.equal(isWellFormed(text), true)
    assert.match(
      created.stderr,
      /^ratelimit token create: token "ci", operator, until \d{4}-.*Z\. It is shown only this once\n$/,
    )
    const again = await token('create', '--name', 'ci', '--role', 'admin')
    assert.deepEqual([again.status, again.stdout], [1, ''])
    assert.match(again.stderr, /there is a token "ci" already: revoke it first/)
    assert.equal(
      JSON.parse((await token('create', '--name', 'a b', '--role', 'viewer', '--json')).stdout).expires_at,
      null,
    )
    for (const wrong of [
      ['--name', 'x', '--role', 'root'],
      ['--name', ' x', '--role', 'viewer'],
      ['--name', 'x\n', '--role', 'viewer'],
      ['--name', 'x'],
      ['--name', 'x', '--role', 'viewer', '--for', '2y'],
    ]) {
      assert.equal((await token('create', ...wrong)).status, 2, wrong.join(' '))
    }

    const listed = (await token('list')).stdout
    assert.match(
      listed,
      /^a b {2}viewer {2}without end {2}never used\nci {2}operator {2}until .* {2}never used\n2 tokens\.\n$/,
    )
    assert.equal(listed.includes(text), false)
    assert.equal(
      JSON.stringify(await database.query(`SELECT * FROM ${database.dialect.table('rate_limit_token')}`)).includes(
        text,
      ),
      false,
    )

    // The last use is written behind the request, once a minute at most.
    const tokens = new Tokens(database)
    const nowMs = Date.now()
    const lastUse = async () => {
      await tokens.close()
      return (await listTokens(database)).at(-1)?.lastUsedAt
    }
    const found = await tokens.find(text, nowMs)
    assert.deepEqual([found?.name, found?.role], ['ci', 'operator'])
    assert.equal(await lastUse(), nowMs)
    await tokens.find(text, nowMs + MINUTE_MS - 1)
    assert.equal(await lastUse(), nowMs)
    await tokens.find(text, nowMs + MINUTE_MS)
    assert.equal(await lastUse(), nowMs + MINUTE_MS)
    assert.equal(await tokens.find(createToken(), nowMs), undefined)
    // A use by a clock that was far ahead hides no later ones.
    await tokens.find(text, nowMs + 30 * DAY_MS)
    await tokens.find(text, nowMs)
    assert.equal(await lastUse(), nowMs)
    assert.equal(await tokens.find(text, nowMs + 91 * DAY_MS), undefined)
    await database.execute(
      `UPDATE ${database.dialect.table('rate_limit_token')} SET role = 'root' WHERE token_hash = $1`,
      [hashToken(text)],
    )
    assert.equal(await tokens.find(text, nowMs), undefined)

    assert.equal((await token('revoke', 'ci')).stdout, 'Revoked: "ci".\n')
    const gone = await token('revoke', 'ci')
    assert.deepEqual(
      [gone.status, gone.stderr],
      [1, 'ratelimit token revoke: there is no token "ci": see token list\n'],
    )
    assert.equal((await listTokens(database)).length, 1)
  })
})

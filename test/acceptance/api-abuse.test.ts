/** What staff and strangers may not get out of the API. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'

const WRONG = { authorization: 'Bearer fsr_wrong' }

forAnyDatabase((provider) => {
  test('an operator cannot reset the limits of sign-ins and tokens, in a namespace neither', async (t) => {
    const { call, request } = await startWithApi(t, provider)
    for (let failed = 0; failed < 10; failed++) await call('GET', '/rules', { headers: WRONG })
    assert.equal((await call('GET', '/rules', { headers: WRONG })).status, 429)
    for (const key of [
      'staff-token|ip:127.0.0.1',
      'staff-sign-in|ip:10.7.7.7',
      'staff-sign-in-account|key:x',
      'a.b|staff-refusal|ip:1',
    ]) {
      const { status, json } = await call('POST', '/counters/reset', { as: 'operator', json: { key } })
      assert.deepEqual([status, json.code], [403, 'FST_RATE_LIMIT_ACTION_DENIED'], key)
    }
    assert.equal((await call('GET', '/rules', { headers: WRONG })).status, 429)
    assert.equal((await request('/')).status, 200)
  })
})

test('a token whose expiry was written as something else than a time opens nothing', async (t) => {
  const { call, database } = await startWithApi(t, 'sqlite')
  assert.equal((await call('GET', '/rules', { as: 'viewer' })).status, 200)
  for (const expiry of [`datetime('now', '-1 day')`, `'2099-01-01T00:00:00Z'`]) {
    await database.database.execute(`UPDATE rate_limit_token SET expires_at = ${expiry} WHERE name = 'viewer'`)
    assert.equal((await call('GET', '/rules', { as: 'viewer' })).status, 401, expiry)
  }
})

test('a reset logs no address that privacy hides, and a network of several clients is wrong input', async (t) => {
  const { call, log } = await startWithApi(t, 'sqlite', {
    plugin: { privacy: { addresses: 'truncated' }, hashSecret: 'x'.repeat(32) },
  })
  const reset = (key: string) => call('POST', '/counters/reset', { as: 'operator', json: { key } })
  assert.equal((await reset('ip:203.0.113.77')).status, 204)
  assert.doesNotMatch(JSON.stringify(log), /203\.0\.113\.77/)
  assert.equal((await reset('ip:203.0.113.0/24')).status, 400)
})

test('strangers who ask while the database fails do not fill the log', async (t) => {
  const { call, database, log, tokens } = await startWithApi(t, 'sqlite')
  await database.database.execute('ALTER TABLE rate_limit_token RENAME TO away')
  for (let asked = 0; asked < 20; asked++) {
    const { status } = await call('GET', '/rules', { headers: { authorization: `Bearer ${tokens.get('viewer')}` } })
    assert.equal(status, 503)
  }
  assert.equal(log.filter(({ level }) => level >= 40).length, 1)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../support/at-end.js'
import { startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { ratelimit } from '../support/scripts.js'

const IP = '203.0.113.7'

forAnyDatabase((_provider, open) => {
  test('ratelimit counters reset lets a client begin anew with every rule, and no other client', long(), async (t) => {
    const clock = fakeClock(Date.now())
    const database = await open(clock)
    atEnd(t, database.close)
    const { app, request } = await startApp(t, {
      database,
      clock,
      plugin: { useDynamicRules: true, middleware: { backend: 'database', defaultRate: '1/366d' } },
    })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'login', pathPattern: '^/login', rate: '1/366d' },
    })
    const statuses = async (from: string) => {
      const answers = []
      for (const path of ['/login', '/']) answers.push((await request(path, { from })).status)
      return answers
    }
    for (const from of [IP, '203.0.113.8']) {
      assert.deepEqual(await statuses(from), [200, 200])
      assert.deepEqual(await statuses(from), [429, 429])
    }
    const reset = (client: string, env: Record<string, string> = {}) =>
      ratelimit(['counters', 'reset', '--schema', database.schema, client], {
        env: { RATELIMIT_DATABASE_URL: database.url, ...env },
      })
    const { status, stdout, stderr } = await reset(IP)
    assert.deepEqual([status, stderr], [0, ''])
    assert.match(stdout, /^The counters of ip:203\.0\.113\.7 were reset\. All servers obey within two seconds\.\n/)
    for (const path of ['/login', '/']) {
      await eventually('the server obeys', async () => (await request(path, { from: IP })).status === 200)
    }
    assert.deepEqual(await statuses('203.0.113.8'), [429, 429])

    const wrong = await reset('nobody')
    assert.equal(wrong.status, 2)
    assert.match(
      wrong.stderr,
      /"nobody" is not a client whose counters can be found: give ip:203\.0\.113\.7 or user:<id>/,
    )
    const inMemory = await reset(IP, { RATELIMIT_MIDDLEWARE: '{"BACKEND":"memory"}' })
    assert.equal(inMemory.status, 1)
    assert.match(inMemory.stderr, /counters are in the memory of each server/)
  })
})

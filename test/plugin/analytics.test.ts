import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { createAnalytics } from '../../src/plugin/analytics.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

forAnyDatabase((_provider, open) => {
  test('reports can be read by a URL, and closed', async (t) => {
    const clock = fakeClock()
    const { url, schema, client, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'bad', blocked: 3, atMs: clock.now() })
    const analytics = createAnalytics({ database: url, schema, clock, alertThreshold: 3 })

    assert.equal((await analytics.getTrafficSummary()).total, 3)
    assert.deepEqual((await analytics.sendOffenderAlerts()).offenders, [{ key: 'bad', blocked_count: 3 }])
    await analytics.close()
  })

  test('closing reports leaves a client open that was handed in', async (t) => {
    const { client, close } = await open()
    t.after(close)
    const analytics = createAnalytics({ database: client })
    await analytics.close()

    assert.equal((await analytics.getTrafficSummary()).total, 0)
    assert.equal(await client.rateLimitEvent.count(), 0)
  })
})

forAnyDatabase((provider) => {
  test('with the privacy of the servers a client is found by its address', async (t) => {
    const privacy = { privacy: { addresses: 'pseudonym' }, hashSecret: 'a secret of the host, long enough' } as const
    const database = await openDatabase(t, provider)
    const { app, statuses, clock } = await startApp(t, { database, plugin: { logEvents: true, ...privacy } })
    await statuses(2, '/', { from: '203.0.113.7' })
    await statuses(1, '/', { from: '2001:db8::1' })
    await app.smartRateLimit.events.flush()
    const analytics = createAnalytics({ database: database.client, clock, ...privacy })

    const { client, requests } = await analytics.getClient({ client: 'ip:203.0.113.7' })
    assert.match(client, /^ip:~[0-9a-f]{32}$/)
    assert.equal(requests, 2)
    assert.equal((await analytics.getOffenderDetail({ key: 'ip:203.0.113.7' })).total, 2)
    assert.equal((await analytics.getClient({ client: 'ip:2001:db8::2' })).requests, 1, 'of the same network')
    const narrow = createAnalytics({ database: database.client, clock, ...privacy, ipv6Subnet: 128 })
    assert.equal((await narrow.getClient({ client: 'ip:2001:db8::1' })).requests, 0, 'another number of bits')
    const unaware = createAnalytics({ database: database.client, clock })
    assert.equal((await unaware.getClient({ client: 'ip:203.0.113.7' })).requests, 0)
    assert.equal((await unaware.getClient({ client })).requests, 2)
  })
})

test('privacy without its secret, or with a wrong value, is refused at once', () => {
  const addresses = 'pseudonym'
  assert.throws(() => createAnalytics({ privacy: { addresses } }), /"privacy" is .* without "hashSecret"/)
  assert.throws(() => createAnalytics({ privacy: { addresses }, hashSecret: 'short' }), /"hashSecret" is not as/)
  assert.throws(() => createAnalytics({ ipv6Subnet: 129 }), /"ipv6Subnet" is 129: give an integer, 1 to 128/)
})

test('a wrong alert threshold is refused at once', () => {
  for (const alertThreshold of [0, -5, 1.5]) {
    assert.throws(() => createAnalytics({ alertThreshold }), InvalidSettingError)
  }
})

test('a client of another make is refused', () => {
  const options: object = { database: {} }
  assert.throws(() => createAnalytics(options), InvalidSettingError)
})

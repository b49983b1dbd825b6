import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { type AlertSettingOptions, resolveAlertSettings } from '../../src/operations/alerts/channels/channels.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'

const log = { error: () => undefined }

function alertsBy(options: AlertSettingOptions) {
  return { settings: resolveAlertSettings(options), log }
}

forEachDatabase((_provider, open) => {
  test('an offender was blocked at least as often as the threshold says', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'many', blocked: 10, atMs: clock.now() })
    await logEvents(client, { key: 'exactly', blocked: 5, allowed: 5, atMs: clock.now() })
    await logEvents(client, { key: 'few', blocked: 4, allowed: 9, atMs: clock.now() })
    await logEvents(client, { key: 'bygone', blocked: 10, atMs: clock.now() - 2 * DAY_MS })
    const analytics = analyticsFor(database, clock)

    const offenders = [
      { key: 'many', blocked_count: 10 },
      { key: 'exactly', blocked_count: 5 },
    ]
    assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 5 }), offenders)
    assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 5, limit: 1 }), offenders.slice(0, 1))
    assert.deepEqual(await analytics.sendOffenderAlerts({ threshold: 5 }), {
      enabled: true,
      threshold: 5,
      days: 1,
      offenders,
      channels: {},
    })
  })

  test('the threshold of the settings counts where none is passed', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    await logEvents(client, { key: 'bad', blocked: 3, atMs: clock.now() })
    const analytics = analyticsFor(database, clock, alertsBy({ alertThreshold: 3 }))

    assert.equal((await analytics.sendOffenderAlerts()).offenders.length, 1)
    assert.equal((await analytics.sendOffenderAlerts({ threshold: undefined, days: 2 })).offenders.length, 1)
    assert.equal((await analytics.sendOffenderAlerts({ threshold: 4 })).offenders.length, 0)
  })

  test('without a threshold alerting is off and the log is not read', async (t) => {
    const { database, close } = await open()
    t.after(close)
    database.beforeReport.add(() => assert.fail('the log was read'))

    assert.deepEqual(await analyticsFor(database, fakeClock(), undefined).sendOffenderAlerts(), {
      enabled: false,
      offenders: [],
      channels: {},
    })
  })

  test('a threshold below 1 is wrong, not off', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const analytics = analyticsFor(database, fakeClock(), undefined)

    for (const threshold of [0, -1, 2.5, Number.NaN]) {
      await assert.rejects(analytics.sendOffenderAlerts({ threshold }), InvalidSettingError)
      await assert.rejects(analytics.findAlertableOffenders({ threshold }), InvalidSettingError)
    }
  })
})

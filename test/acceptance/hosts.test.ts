/** The plugin in hosts that other plugins, frameworks and test tools set up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startApp } from '../support/build-app.js'

const ONCE = { defaultRate: '1/m' }

test('without a clock of its own the plugin follows fake timers of the host', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 15, 12) })
  const { statuses } = await startApp(t, { database: null, plugin: { clock: undefined, middleware: ONCE } })
  assert.deepEqual(await statuses(2, '/'), [200, 429])
  t.mock.timers.tick(60_000)
  assert.deepEqual(await statuses(2, '/'), [200, 429])
})

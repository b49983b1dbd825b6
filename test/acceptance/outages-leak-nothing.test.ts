/** After outages a server holds what it held before them: no timers, sockets, promises or requests are left behind. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { forEachDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import type { Held } from '../support/outages.js'

const run = promisify(execFile)

const OUTAGES = 2
/** What 2 outages of a thousand requests and more may leave: less than a kilobyte for each of those. */
const SLACK_BYTES = 2_000_000

forEachDatabase((provider) => {
  test(`${OUTAGES} outages of a thousand requests leave no timer, no socket and no memory behind`, long(), async () => {
    const script = modulePath('test/support/outages')
    const args = ['--expose-gc', ...LOADER, script, provider, String(OUTAGES)]
    const { stdout } = await run(process.execPath, args)
    const { before, after, left }: { before: Held; after: Held; left: string[] } = JSON.parse(stdout)

    assert.ok(after.heapBytes - before.heapBytes < SLACK_BYTES, `${before.heapBytes} → ${after.heapBytes} bytes`)
    assert.deepEqual(left, [], JSON.stringify({ before: before.resources, after: after.resources }))
  })
})

/** After outages a server holds what it held before them: no timers, sockets, promises or requests are left behind. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { forEachDatabase } from '../support/databases.js'

const run = promisify(execFile)

const OUTAGES = 4
/** What 4 outages of a thousand requests and more may leave: less than half a kilobyte for each of those. */
const SLACK_BYTES = 2_000_000

interface Held {
  readonly heapBytes: number
  readonly resources: Readonly<Record<string, number>>
}

forEachDatabase((provider) => {
  test(`${OUTAGES} outages of a thousand requests leave no timer, no socket and no memory behind`, async () => {
    const script = join(import.meta.dirname, '../support/outages.ts')
    const args = ['--expose-gc', '--import', 'tsx', script, provider, String(OUTAGES)]
    const { stdout } = await run(process.execPath, args)
    const { before, after }: { before: Held; after: Held } = JSON.parse(stdout)

    assert.ok(after.heapBytes - before.heapBytes < SLACK_BYTES, `${before.heapBytes} → ${after.heapBytes} bytes`)
    for (const [name, count] of Object.entries(after.resources)) {
      // A pool may keep a few connections more or less, each of which the proxy has too.
      const most = name === 'TCPSocketWrap' ? 4 * 5 : (before.resources[name] ?? 0)
      assert.ok(count <= most, `${name}: ${JSON.stringify({ before: before.resources, after: after.resources })}`)
    }
  })
})

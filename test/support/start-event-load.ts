import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from './at-end.js'
import type { LoadLine } from './event-load.js'
import { LOADER, modulePath } from './modules.js'

/** Starts `event-load.ts` as a process that can be killed. */
export function startEventLoad(
  t: TestContext,
  plugin: RateLimitOptions,
  atOnce = 20,
  addresses: readonly string[] = [],
) {
  const script = modulePath('test/support/event-load')
  const child: ChildProcess = spawn(
    process.execPath,
    [...LOADER, script, JSON.stringify(plugin), String(atOnce), ...addresses],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  const closed = once(child, 'close')
  let last: LoadLine | undefined
  if (child.stdout !== null) createInterface(child.stdout).on('line', (line) => (last = JSON.parse(line)))
  async function kill(): Promise<LoadLine> {
    child.kill('SIGKILL')
    await closed
    assert.ok(last)
    return last
  }
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await closed
  })
  return {
    last: () => last,
    kill,
    async end() {
      child.stdin?.end()
      await closed
      assert.equal(child.exitCode, 0)
    },
  }
}

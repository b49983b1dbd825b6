/** Several processes on one store admit the limit together, and not one check more. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { MINUTE_MS } from '../../src/clock.js'
import { ALGORITHMS } from '../../src/limiter/algorithm.js'
import { forEachStore, onRedisCluster, type TestPlace } from '../support/stores.js'

const run = promisify(execFile)

const PROCESSES = 4
const LIMIT = 60
/** More than the limit for each process, so that none of them moves on before the limit is reached. */
const CHECKS = 100
const HAMMER = join(import.meta.dirname, '../support/hammer.ts')
const NOW_MS = 1_705_161_615_000

function admitExactly(name: string, open: () => Promise<TestPlace>): void {
  describe(`${PROCESSES} processes on ${name}`, () => {
    for (const algorithm of ALGORITHMS) {
      test(`admit exactly ${LIMIT} of ${PROCESSES * CHECKS} checks, and as many once that is forgotten: ${algorithm}`, async () => {
        const { place, close } = await open()
        try {
          const policy = JSON.stringify({ algorithm, limit: LIMIT, periodMs: MINUTE_MS })
          // The processes cross into the later windows at different times.
          const moments = [NOW_MS, NOW_MS + 2 * MINUTE_MS, NOW_MS + 4 * MINUTE_MS].map(String)
          const args = ['--import', 'tsx', HAMMER, JSON.stringify(place), String(CHECKS), policy, ...moments]
          const runs = await Promise.all(Array.from({ length: PROCESSES }, () => run(process.execPath, args)))
          const admitted = runs.flatMap(({ stdout }) => stdout.trim().split('\n').map(Number))
          assert.equal(admitted.length, PROCESSES * moments.length)
          assert.equal(
            admitted.reduce((sum, count) => sum + count, 0),
            LIMIT * moments.length,
          )
        } finally {
          await close()
        }
      })
    }
  })
}

forEachStore(admitExactly)
onRedisCluster(admitExactly)

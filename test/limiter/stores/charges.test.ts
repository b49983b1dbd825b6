/** Several processes that reserve, charge and give back at once use what they say, and reserve nothing beyond the limit. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { Policy } from '../../../src/limiter/algorithm.js'
import { RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { parseRate, toReservingPolicy } from '../../../src/limiter/rate.js'
import { long } from '../../support/long.js'
import { LOADER, modulePath } from '../../support/modules.js'
import { openStore } from '../../support/store-location.js'
import { forEachStore, onRedisCluster, type TestStore } from '../../support/stores.js'

const run = promisify(execFile)

const PROCESSES = 4
const LIMIT = 300
const ROUNDS = 20
const NOW_MS = 1_705_161_615_000
const HAMMER = modulePath('test/support/charge-hammer')

/** The counters: of every algorithm with one window and with two, and of months; reserved alone, and charged as well. */
const COUNTERS = RATE_ALGORITHMS.flatMap((algorithm) => {
  const months = algorithm === 'fixed_window' ? [`${LIMIT}/month`, `${LIMIT}/d, 9000/month`] : []
  return [`${LIMIT}/m`, `${LIMIT}/m, 9000/d`, ...months].flatMap((rate) =>
    [false, true].map((isCharged): [string, Policy, boolean] => {
      return [`${algorithm} ${rate} ${isCharged}`, toReservingPolicy(algorithm, parseRate(rate)), isCharged]
    }),
  )
})

function countExactly(name: string, open: () => Promise<TestStore>): void {
  test(
    `${PROCESSES} processes on ${name} use exactly what they reserve and charge without what they give back, and reserve nothing above the limit`,
    long(),
    async () => {
      const { location, close } = await open()
      try {
        const parameters = [JSON.stringify(location), ROUNDS, NOW_MS, JSON.stringify(COUNTERS)].map(String)
        const runs = await Promise.all(
          Array.from({ length: PROCESSES }, () => run(process.execPath, [...LOADER, HAMMER, ...parameters])),
        )
        const told = runs.map(({ stdout }) =>
          stdout
            .trim()
            .split('\n')
            .map((line) => line.split(' ').map(Number)),
        )
        const store = openStore(location)
        try {
          for (const [index, [key, policy, isCharged]] of COUNTERS.entries()) {
            const used = told.reduce((sum, lines) => sum + (lines[index]?.[0] ?? Number.NaN), 0)
            const highest = Math.max(...told.map((lines) => lines[index]?.[1] ?? Number.NaN))
            const [decision] = await store.check([{ key, policy, cost: 0 }], NOW_MS)
            assert.ok(decision !== undefined)
            // A refused question counts as one more.
            assert.equal(decision.count - (decision.allowed ? 0 : 1), used, key)
            assert.ok(highest > LIMIT / 2 && highest <= LIMIT, `${key}: ${highest}`)
            assert.equal(used > LIMIT, isCharged, `${key}: ${used}`)
          }
        } finally {
          await store.close()
        }
      } finally {
        await close()
      }
    },
  )
}

forEachStore(countExactly)
onRedisCluster(countExactly)

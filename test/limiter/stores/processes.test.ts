/** Several processes on one store admit the limit together, and not one check more. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { MINUTE_MS } from '../../../src/ground/time/clock.js'
import { ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../../src/limiter/rate.js'
import { long } from '../../support/long.js'
import { LOADER, modulePath } from '../../support/modules.js'
import { forEachStore, onRedisCluster, type TestStore } from '../../support/stores.js'

const run = promisify(execFile)

const PROCESSES = 4
const LIMIT = 60
/** More than the limit for each process, so that none of them moves on before the limit is reached. */
const CHECKS = 100
/** The longer window has room for all checks, since fixed windows count those that are refused, too. */
const RATES = [`${LIMIT}/m`, `${LIMIT}/m, ${PROCESSES * CHECKS * 3}/d`]
const HAMMER = modulePath('test/support/hammer')
const NOW_MS = 1_705_161_615_000

/** The processes cross into the later windows at different times. */
const MOMENTS = [NOW_MS, NOW_MS + 2 * MINUTE_MS, NOW_MS + 4 * MINUTE_MS]

function admitExactly(name: string, open: () => Promise<TestStore>): void {
  test(
    `${PROCESSES} processes on ${name} admit exactly ${LIMIT} of ${PROCESSES * CHECKS} checks, and as many once that is forgotten, by every algorithm, with one window and with two`,
    long(),
    async () => {
      const { location, close } = await open()
      try {
        const policies = ALGORITHMS.flatMap((algorithm) => {
          const rates = algorithm !== 'concurrency' ? RATES : RATES.slice(0, 1)
          return rates.map((rate) => toPolicy(algorithm, parseRate(rate)))
        })
        const parameters = [JSON.stringify(location), String(CHECKS), JSON.stringify(policies), ...MOMENTS.map(String)]
        const runs = await Promise.all(
          Array.from({ length: PROCESSES }, () => run(process.execPath, [...LOADER, HAMMER, ...parameters])),
        )
        const admitted = runs.map(({ stdout }) => stdout.trim().split('\n').map(Number))
        for (const [index, { algorithm, windows }] of policies.entries()) {
          const first = index * MOMENTS.length
          const counts = admitted.flatMap((process) => process.slice(first, first + MOMENTS.length))
          assert.equal(counts.length, PROCESSES * MOMENTS.length)
          assert.equal(
            counts.reduce((sum, count) => sum + count, 0),
            LIMIT * MOMENTS.length,
            `${algorithm}, ${windows?.length ?? 1} windows`,
          )
        }
      } finally {
        await close()
      }
    },
  )
}

forEachStore(admitExactly)
onRedisCluster(admitExactly)

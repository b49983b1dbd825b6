/** Several processes admit nothing above any limit of several groups, and refused requests cost nothing in the others. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { NOON_MS, startGroupApp } from '../support/group-app.js'
import type { HammerOptions } from '../support/group-hammer.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const run = promisify(execFile)

const PROCESSES = 4
const USERS = ['a', 'b', 'c', 'd', 'e', 'f']
/** The requests of each user, by each process: more than any limit. */
const REQUESTS = 12
const HAMMER = modulePath('test/support/group-hammer')

/** The limits of each user and of all of them together, the tight one of which is exact. */
const TIGHT_USER = { user: 10, all: 100_000, admitted: 60 }
const TIGHT_ALL = { user: 100_000, all: 60, admitted: 60 }
/** Each may refuse, and both do for a moment what a refused request has not given back yet. */
const BOTH = { user: 10, all: 35, admitted: undefined }

const TRIALS = RATE_ALGORITHMS.flatMap((algorithm) =>
  [TIGHT_USER, TIGHT_ALL, BOTH].map((limits, index) => ({ ...limits, algorithm, path: `/${algorithm}/${index}` })),
)

function admitExactly(name: string, open: () => Promise<TestStore>): void {
  test(
    `${PROCESSES} processes on ${name} admit nothing above a limit per user or one for all, and what refuses costs the other nothing`,
    long(),
    async (t) => {
      const opened = await open()
      const rules = TRIALS.flatMap(({ user, all, algorithm, path }, index) => [
        { name: `user ${index}`, rate: `${user}/h`, algorithm, pathPattern: `^${path}$` },
        {
          name: `all ${index}`,
          group: 'all',
          key: 'all',
          rate: `${all}/h, 200000/d`,
          algorithm,
          pathPattern: `^${path}$`,
        },
      ])
      const { database, counts } = await startGroupApp(t, rules, { open: async () => opened })
      const options: HammerOptions = {
        location: opened.location,
        rules: database.url,
        nowMs: NOON_MS,
        paths: TRIALS.map(({ path }) => path),
        users: USERS,
        requests: REQUESTS,
      }
      const runs = await Promise.all(
        Array.from({ length: PROCESSES }, () => run(process.execPath, [...LOADER, HAMMER, JSON.stringify(options)])),
      )
      for (const [index, { user, all, admitted, algorithm, path }] of TRIALS.entries()) {
        const ofProcesses = runs.map(
          ({ stdout }): Record<string, number> => JSON.parse(stdout.split('\n')[index] ?? ''),
        )
        const perUser = USERS.map((each) => ofProcesses.reduce((sum, process) => sum + (process[each] ?? 0), 0))
        const total = perUser.reduce((sum, count) => sum + count, 0)
        const shown = `${algorithm}, ${user} per user, ${all} for all: ${perUser}`
        assert.ok(Math.max(...perUser) <= user && total <= all && total > 0, shown)
        if (admitted === undefined) continue
        assert.equal(total, admitted, shown)
        const counted = await Promise.all(USERS.map((each) => counts(each, path)))
        if (all > user) assert.equal(counted[0]?.[`all ${index}`], total, shown)
        else
          assert.deepEqual(
            counted.map((limits) => limits[`user ${index}`]),
            perUser,
            shown,
          )
      }
    },
  )
}

forEachStore(admitExactly)
onRedisCluster(admitExactly)

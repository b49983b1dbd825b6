/** Several servers reserve, charge and give back of the same counters at once: they and usage are exact, also if one is killed. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { atEnd } from '../support/at-end.js'
import { eventually } from '../support/eventually.js'
import { NOON_MS, startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'
import type { Step, UnitHammerOptions } from '../support/unit-hammer.js'

const PROCESSES = 4
const LIMIT = 300
const RESERVE = 20
/** A user of theirs is charged for more than is reserved. */
const USERS = ['modest', 'spender']
const REQUESTS = 15
const PATHS = RATE_ALGORITHMS.map((algorithm) => `/${algorithm}`)
const WAIT_MS = 60_000

/** What a server has told of one step of a request. */
interface Told {
  readonly atMs: number
  readonly step: Step
  readonly path: string
  readonly user: string
  readonly amount: number
}

/** The steps of the user who makes requests until the end. */
const isEndless = ({ user }: Told) => user === 'endless'

function startHammer(t: TestContext, options: UnitHammerOptions) {
  const args = [...LOADER, modulePath('test/support/unit-hammer'), JSON.stringify(options)]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const told: Told[] = []
  createInterface(child.stdout).on('line', (line) => {
    const [atMs, step, path = '', user = '', amount] = line.split(' ')
    told.push({ atMs: Number(atMs), step: step as Step, path, user, amount: Number(amount) })
  })
  atEnd(t, () => child.kill('SIGKILL'))
  return {
    told,
    isOver: () => told.some(({ step }) => step === 'over'),
    async kill() {
      child.kill('SIGKILL')
      await closed
    },
    async end() {
      child.stdin.end()
      await closed
      assert.equal(child.exitCode, 0)
    },
  }
}

function sum(told: readonly Told[], step: Step, is: (each: Told) => boolean): number {
  return told.filter((each) => each.step === step && is(each)).reduce((total, { amount }) => total + amount, 0)
}

function assertWithin(what: string, [least, actual, most]: readonly [number, number, number]): void {
  assert.ok(least <= actual && actual <= most, `${what}: ${actual}, and not ${least} to ${most}`)
}

function countExactly(name: string, open: () => Promise<TestStore>): void {
  test(
    `${PROCESSES} servers on ${name} reserve nothing above a limit, and what they count and keep as usage is what was charged; the last second of usage of a killed one may be missing`,
    long(),
    async (t) => {
      const opened = await open()
      const all = { name: 'all', group: 'all', key: 'all', rate: '2000000000/month', unit: 'tokens', reserve: RESERVE }
      const rules = RATE_ALGORITHMS.map((algorithm) => {
        const pathPattern = `^/${algorithm}$`
        const rate = `${LIMIT}/m, 100000/d`
        return { name: algorithm, rate, algorithm, pathPattern, unit: 'tokens', reserve: RESERVE }
      })
      const endless = {
        name: 'endless',
        pathPattern: '^/endless$',
        rate: '2000000000/d',
        unit: 'tokens',
        reserve: RESERVE,
      }
      const { app, database, counts } = await startGroupApp(t, [...rules, endless, all], {
        open: async () => opened,
      })
      const options = { paths: PATHS, users: USERS, requests: REQUESTS, reserve: RESERVE, spender: 'spender' }
      const { url, schema } = database
      const hammers = Array.from({ length: PROCESSES }, () => {
        return startHammer(t, { location: opened.location, database: { url, schema }, nowMs: NOON_MS, ...options })
      })
      await eventually('the first part is over', () => hammers.every((hammer) => hammer.isOver()), WAIT_MS)
      const [killed, ...others] = hammers
      assert.ok(killed !== undefined)
      const { told: ofKilled } = killed
      const untilMs = Date.now() + 2 * SECOND_MS
      await eventually('the server to be killed goes on', () => (ofKilled.at(-1)?.atMs ?? 0) > untilMs, WAIT_MS)
      await killed.kill()
      await Promise.all(others.map((hammer) => hammer.end()))
      const told = hammers.flatMap((hammer) => hammer.told)

      const highest = told.reduce(
        (most, { step, amount }) => (step === 'admitted' ? Math.max(most, amount) : most),
        -LIMIT,
      )
      assert.ok(highest <= 0, `a request was admitted with ${highest} above a limit`)
      for (const path of PATHS) {
        for (const user of USERS) {
          const used = sum(told, 'ended', (each) => each.path === path && each.user === user)
          const { all: _all, ...count } = await counts(user, path)
          // A refused question counts as one more.
          assert.deepEqual(count, { [path.slice(1)]: used + (used >= LIMIT ? 1 : 0) }, `${user}, ${path}`)
          assert.ok(user === 'spender' || used <= LIMIT, `${user}, ${path}: ${used}`)
          // A request is refused only while others hold or have used the rest, each of them what a request uses at most.
          const of = told.filter((each) => each.path === path && each.user === user)
          const mostOfOne = Math.max(...of.map(({ step, amount }) => (step === 'asks' ? amount : 0)))
          const admitted = of.filter(({ step }) => step === 'admitted').length
          assert.ok(admitted * mostOfOne > LIMIT - RESERVE, `${user}, ${path}: ${admitted} admitted`)
        }
      }

      const { analytics } = app.smartRateLimit
      const range = { since: new Date(NOON_MS), until: new Date(NOON_MS + 1) }
      const { rows } = await analytics.getUsage({ unit: 'tokens', ...range })
      const usage = new Map(rows.map(({ client, amount }) => [client, amount]))
      for (const user of USERS) {
        assert.equal(
          usage.get(`user:${user}`),
          sum(told, 'charged', (each) => each.user === user),
          `usage of ${user}`,
        )
      }

      // What is known of the killed one: what it has charged, and what its requests may have charged at most.
      const killedMs = ofKilled.at(-1)?.atMs ?? 0
      const ended = sum(
        others.flatMap((hammer) => hammer.told),
        'ended',
        isEndless,
      )
      const charged = sum(
        others.flatMap((hammer) => hammer.told),
        'charged',
        isEndless,
      )
      const most = sum(ofKilled, 'asks', isEndless)
      const { endless: count = 0 } = await counts('endless', '/endless')
      assertWithin('the counter', [ended + sum(ofKilled, 'charged', isEndless), Number(count), ended + most])
      const beforeLastSecond = sum(ofKilled, 'charged', (each) => isEndless(each) && each.atMs < killedMs - SECOND_MS)
      assertWithin('usage', [charged + beforeLastSecond, usage.get('user:endless') ?? 0, charged + most])
    },
  )
}

forEachStore(countExactly)
onRedisCluster(countExactly)

/** The store, or a part of it, is away for requests that have several limits: onStoreError decides for each of these. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import { MemoryStore, type RateLimitOptions, type Store } from '../../src/index.js'
import { eventually } from '../support/eventually.js'
import { startGroupApp } from '../support/group-app.js'

type Part = 'user' | 'team'
const USER_RATE = 2
const TEAM_RATE = 3

function partOf(key: string): Part {
  return key.startsWith('rule:team|') ? 'team' : 'user'
}

async function start(
  t: TestContext,
  onStoreError: RateLimitOptions['onStoreError'],
  { away, block = true }: { readonly away: readonly Part[]; readonly block?: boolean },
) {
  const memory = new MemoryStore()
  /** A store of two parts, each of which can be away. */
  const backend: Store = {
    concurrency: 1,
    partOf,
    check(checks, nowMs) {
      if (checks.some(({ key }) => away.includes(partOf(key)))) throw new Error('the part is away')
      return memory.check(checks, nowMs)
    },
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    close: () => memory.close(),
  }
  const rules = [
    { name: 'user', rate: `${USER_RATE}/m` },
    { name: 'team', group: 'team', key: 'all', rate: `${TEAM_RATE}/m`, block },
  ]
  const started = await startGroupApp(t, rules, { plugin: { onStoreError, middleware: { backend } } })
  const stored = (key: string, limit: number) => {
    const policy = { algorithm: 'fixed_window', limit, periodMs: MINUTE_MS } as const
    return memory.check([{ key, policy, cost: 0 }], started.clock.now())[0]?.count
  }
  return {
    ...started,
    async statuses(...users: string[]) {
      const found: number[] = []
      for (const user of users) found.push(await started.by(user))
      return found
    },
    /** Waits until the store itself has counted so many, when it has what was given back. */
    counted: (user: string, ofUser: number, ofTeam: number) =>
      eventually(`the store has counted ${ofUser} and ${ofTeam}`, () => {
        return stored(`rule:user|user:${user}`, USER_RATE) === ofUser && stored('rule:team|all', TEAM_RATE) === ofTeam
      }),
  }
}

const BOTH = ['user', 'team'] as const

test("with 'local' each limit is counted in memory, and a request that one of them refuses costs the other nothing", async (t) => {
  const { statuses, counts } = await start(t, 'local', { away: BOTH })
  assert.deepEqual(await statuses('alice', 'alice', 'alice', 'alice'), [200, 200, 429, 429])
  assert.equal((await counts('alice')).team, 2)
  assert.deepEqual(await statuses('bob', 'carol'), [200, 429])
})

test("with 'allow' no limit refuses, and with 'deny' each of them answers 503", async (t) => {
  const allowing = await start(t, 'allow', { away: BOTH })
  assert.deepEqual(await allowing.statuses(...Array(5).fill('alice')), Array(5).fill(200))
  const denying = await start(t, 'deny', { away: BOTH })
  const { status, text } = await denying.request('/', { headers: { 'x-user': 'alice' } })
  assert.deepEqual([status, JSON.parse(text).code], [503, 'FST_RATE_LIMIT_STORE_UNAVAILABLE'])
})

test("where the store of one limit is away, 'allow' and 'local' leave the others as exact as before", async (t) => {
  const allowing = await start(t, 'allow', { away: ['team'] })
  assert.deepEqual(await allowing.statuses('alice', 'alice', 'alice', 'bob', 'carol'), [200, 200, 429, 200, 200])
  await allowing.counted('alice', 2, 0)
  const local = await start(t, 'local', { away: ['team'] })
  assert.deepEqual(await local.statuses('alice', 'alice', 'alice', 'bob', 'carol'), [200, 200, 429, 200, 429])
  await local.counted('carol', 0, 0)
})

test("where the store of one limit is away, 'deny' refuses with 503, and costs the others nothing", async (t) => {
  const { statuses, counted } = await start(t, 'deny', { away: ['team'] })
  assert.deepEqual(await statuses('alice', 'alice', 'alice'), [503, 503, 503])
  await counted('alice', 0, 0)
})

test("a limit with block: false refuses nothing with 'deny', and gives back nothing that it did not count", async (t) => {
  const { statuses, counted } = await start(t, 'deny', { away: ['team'], block: false })
  assert.deepEqual(await statuses('alice', 'alice', 'alice'), [200, 200, 429])
  await counted('alice', 3, 0)
})

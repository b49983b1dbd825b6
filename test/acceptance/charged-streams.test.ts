/** Requests that are charged while their response is streamed: to its end, until the client leaves, across a month. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, type TestContext, test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { eventually } from '../support/eventually.js'
import { type GroupRule, NOON_MS, startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const DECEMBER_MS = Date.UTC(2026, 11, 1)
const TOKENS = { name: 'tokens', rate: '1000/m', unit: 'tokens', reserve: 300 }
const BUDGET = { ...TOKENS, name: 'budget', rate: '5000/month', group: 'budget' }

/** An app that streams words, each of which is charged for ten tokens and waits until the test lets it go. */
async function start(t: TestContext, rules: readonly GroupRule[], open?: () => Promise<TestStore>) {
  const waiting: (() => void)[] = []
  const streamed: FastifyRequest[] = []
  const left: (number | null | undefined)[] = []
  let ended = 0
  const started = await startGroupApp(t, rules, {
    open,
    plugin: { usage: ['tokens'] },
    routes(app) {
      async function* words(request: FastifyRequest) {
        for (;;) {
          yield 'word '
          await new Promise<void>((go) => waiting.push(go))
          left.push((await app.smartRateLimit.charge(request, { tokens: 10 })).tokens)
        }
      }
      app.get('/*', (request, reply) => {
        streamed.push(request)
        reply.raw.once('close', () => ended++)
        reply.send(Readable.from(words(request)))
      })
    },
  })
  return {
    ...started,
    /** Charges the request after its stream. */
    async chargeLater(tokens: number) {
      const [request] = streamed
      assert.ok(request !== undefined)
      return (await started.app.smartRateLimit.charge(request, { tokens })).tokens
    },
    /** Begins a stream of Alice, and resolves when the first word has come. */
    async begin() {
      const leaving = new AbortController()
      await fetch(started.origin, { headers: { 'x-user': 'alice' }, signal: leaving.signal })
      return {
        /** Lets words be charged, and resolves with what was left after each. */
        async words(count: number) {
          for (let word = 0; word < count; word++) {
            await eventually('the word waits', () => waiting.length > 0)
            waiting.shift()?.()
            await eventually('the word is charged', () => left.length > word)
          }
          return left.splice(0)
        },
        /** Leaves, and resolves when the server has noticed. */
        async leave() {
          leaving.abort()
          await eventually('the stream has ended', () => ended > 0)
        },
      }
    },
    async usage(by: 'client' | 'day' | 'month') {
      const range = { since: new Date(NOON_MS), until: new Date(DECEMBER_MS + SECOND_MS) }
      const page = await started.app.smartRateLimit.analytics.getUsage({ unit: 'tokens', by, ...range })
      return page.rows
    },
  }
}

function onStore(name: string, open?: () => Promise<TestStore>): void {
  test(
    `a stream that charged forty times and is aborted keeps what it was charged, and gives the rest back: counted in ${name}`,
    long(),
    async (t) => {
      const { begin, haveCounts, usage } = await start(t, [{ ...TOKENS, reserve: 500 }, BUDGET], open)
      const { words, leave } = await begin()
      const left = await words(40)
      assert.deepEqual([left.slice(0, 2), left.at(-1)], [[500, 500], 500], 'they are within what is reserved')
      await haveCounts('alice', { tokens: 500, budget: 400 })
      await leave()
      await haveCounts('alice', { tokens: 400, budget: 400 })
      await eventually('usage is written', async () => (await usage('client'))[0]?.amount === 400)
      assert.deepEqual(await usage('client'), [{ client: 'user:alice', amount: 400, requests: 1 }])
    },
  )

  test(`a stream that is aborted before it charged keeps its reservation, and its first charge settles it: counted in ${name}`, async (t) => {
    const { begin, haveCounts, chargeLater, clock } = await start(t, [TOKENS, BUDGET], open)
    const { leave } = await begin()
    await leave()
    await haveCounts('alice', { tokens: 300, budget: 300 })
    clock.advance(20 * SECOND_MS)
    assert.equal(await chargeLater(120), 880)
    await haveCounts('alice', { tokens: 120, budget: 120 })
    assert.equal(await chargeLater(200), 680)
    await haveCounts('alice', { tokens: 320, budget: 320 })
  })

  test(`a stream that goes on into the next month is charged in both: counted in ${name}`, async (t) => {
    const { begin, haveCounts, usage, clock } = await start(t, [{ ...BUDGET, group: '', reserve: 45 }], open)
    clock.advance(DECEMBER_MS - SECOND_MS - clock.now())
    const { words, leave } = await begin()
    assert.deepEqual(await words(6), [4955, 4955, 4955, 4955, 4950, 4940])
    clock.advance(SECOND_MS)
    assert.deepEqual(await words(3), [4990, 4980, 4970])
    await leave()
    await haveCounts('alice', { budget: 30 })
    await eventually('usage is written', async () => (await usage('month')).length === 2)
    assert.deepEqual(await usage('month'), [
      { month: '2026-11', amount: 60, requests: 1 },
      { month: '2026-12', amount: 30, requests: 1 },
    ])
  })

  test(`a charge of more than a counter holds exhausts its window and no more, and usage has all of it: counted in ${name}`, async (t) => {
    const { begin, by, chargeLater, usage, log, clock } = await start(t, [TOKENS, BUDGET], open)
    await begin()
    for (const tokens of [5_000_000_000, 2 ** 53 - 1, 1]) assert.equal(await chargeLater(tokens), 0)
    assert.equal(await by('alice'), 429)
    await eventually('usage is written', async () => (await usage('client')).length === 1)
    assert.deepEqual(await usage('client'), [{ client: 'user:alice', amount: 2 ** 53 - 1, requests: 1 }])
    clock.advance(DECEMBER_MS - clock.now())
    assert.equal(await chargeLater(100), 900)
    assert.deepEqual(log, [])
  })
}

describe('in memory', () => onStore('memory'))
forEachStore(onStore)
onRedisCluster(onStore)

test('a stream that says it used nothing gets back all that it reserved', async (t) => {
  const { begin, haveCounts, chargeLater } = await start(t, [TOKENS])
  const { leave } = await begin()
  assert.equal(await chargeLater(0), 700)
  await leave()
  await haveCounts('alice', { tokens: 0 })
})

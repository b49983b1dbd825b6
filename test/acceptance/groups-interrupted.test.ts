/** What a request of several limits meets while it waits: late clients, edited rules, remembered refusals, a node away. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore, type RefusalError, type RequestDecision, type Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { eventually } from '../support/eventually.js'
import { startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { clusterMissing, startCluster } from '../support/redis-cluster.js'

const USER_AND_TEAM = [
  { name: 'user', rate: '1/m' },
  { name: 'team', group: 'team', key: 'all', rate: '5/m' },
]

/** A store whose answers are late, as those of a server are. */
function lateStore(beforeAnswer: () => Promise<void> = async () => undefined): Store {
  const memory = new MemoryStore()
  return {
    concurrency: 8,
    async check(checks, nowMs) {
      const decisions = memory.check(checks, nowMs)
      await beforeAnswer()
      return decisions
    },
    settle: (settlements) => memory.settle(settlements),
    reset: (keys) => memory.reset(keys),
    close: () => undefined,
  }
}

test('a user that the app finds late is counted by every limit of users', async (t) => {
  const { app, counts, request } = await startGroupApp(
    t,
    [
      { name: 'user', rate: '2/m', algorithm: 'sliding_window' },
      { name: 'organisation', group: 'organisation', key: 'user.org', rate: '3/m', algorithm: 'sliding_window' },
    ],
    {
      plugin: {
        async user({ headers }) {
          await app.smartRateLimit.health()
          return { id: String(headers['x-user']), org: 'acme' }
        },
      },
    },
  )
  const by = async (user: string) => (await request('/', { headers: { 'x-user': user } })).status
  assert.deepEqual([await by('alice'), await by('alice'), await by('alice')], [200, 200, 429])
  assert.deepEqual([await by('bob'), await by('bob')], [200, 429])
  assert.deepEqual(await counts('alice'), { user: 2, organisation: 3 })
})

test('a rule that is edited while a request waits for its answer gets back what the request took of it', async (t) => {
  const edit = async () => {
    await app.smartRateLimit.client.rateLimitRule.update({ where: { name: 'team' }, data: { rate: '9/m, 20/h' } })
  }
  let asked = 0
  const backend = lateStore(async () => (++asked === 2 ? edit() : undefined))
  const { app, by, counts } = await startGroupApp(t, USER_AND_TEAM, { plugin: { middleware: { backend } } })
  assert.equal(await by('alice'), 200)
  const waiting = by('alice')
  assert.equal(await waiting, 429)
  assert.equal((await counts('bob')).team, 1)
})

test('a limit that was not asked, since another one is known to refuse, has no decision and loses nothing', async (t) => {
  const { by, counts, request } = await startGroupApp(t, USER_AND_TEAM, {
    plugin: { middleware: { backend: lateStore() } },
    routes(app) {
      app.get('/*', async () => 'ok')
      app.setErrorHandler((error: RefusalError, _request, reply) => reply.code(429).send(error.decision))
    },
  })
  assert.deepEqual([await by('alice'), await by('alice')], [200, 429])
  const { limits }: RequestDecision = JSON.parse((await request('/', { headers: { 'x-user': 'alice' } })).text)
  assert.deepEqual(
    limits.map(({ policy, decision }) => [policy, decision?.allowed ?? null]),
    [
      ['user', false],
      ['team', null],
    ],
  )
  assert.equal((await counts('bob')).team, 1)
})

test(
  'while one node of a cluster is away the limits of the others decide, and get back what they lent',
  long(clusterMissing),
  async (t) => {
    const { url, signalFirst, stop } = await startCluster()
    atEnd(t, stop)
    const names = Array.from({ length: 7 }, (_, place) => `group-${place}`)
    const { by, counts, log } = await startGroupApp(
      t,
      [{ name: 'user', rate: '2/h' }, ...names.map((name) => ({ name, group: name, key: 'all', rate: '50/h' }))],
      { plugin: { redis: url, storeTimeoutMs: 2_000, middleware: { backend: 'redis' } } },
    )
    const users = Array.from({ length: 12 }, (_, place) => `user-${place}`)
    const askAll = async () => {
      const statuses = []
      for (const user of users) statuses.push(await by(user))
      return statuses
    }
    assert.deepEqual(new Set(await askAll()), new Set([200]))
    signalFirst('SIGKILL')
    await by('late')
    await eventually('the outage is noticed', () => log.some(({ msg }) => msg.startsWith('Rate limit store failed')))

    const rounds = [await askAll(), await askAll(), await askAll()]
    // The process itself counts the limits of the node that is away, from the start of the outage.
    const ofLiveNodes = '200,429,429'
    const ofDeadNode = '200,200,429'
    const answers = users.map((_user, place) => rounds.map((statuses) => statuses[place]).join())
    assert.deepEqual(new Set(answers), new Set([ofLiveNodes, ofDeadNode]))
    const admitted = 1 + rounds.flat().filter((status) => status === 200).length
    const { user: _user, ...groups } = await counts('nobody')
    assert.deepEqual(new Set(Object.values(groups)), new Set([users.length + admitted, admitted]))
  },
)

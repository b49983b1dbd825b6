/** All limits of a request are asked in one round trip, whatever their number, and given back in one. */
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { countStatements } from '../support/count-statements.js'
import { type GroupRule, startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

/** A limit with four windows of each of the eight groups; the last one refuses the third request. */
function eightRules(algorithm: string): GroupRule[] {
  return Array.from({ length: 8 }, (_, place) => ({
    name: `rule-${place}`,
    group: place === 0 ? '' : `group-${place}`,
    rate: `${place === 7 ? 2 : 10}/m, 100/h, 1000/d, 9000/30d`,
    algorithm,
  }))
}

/** Returns a function that returns how often each server of Redis was sent scripts since it was last asked. */
function watchRedis(t: TestContext): () => number[] {
  const writes = new Map<Socket, number>()
  for (const name of ['_write', '_writev']) {
    const original: unknown = Reflect.get(Socket.prototype, name)
    if (typeof original !== 'function') throw new TypeError(`Sockets have no ${name}`)
    function watched(this: Socket, ...parameters: unknown[]): unknown {
      if (JSON.stringify(parameters[0]).includes('evalsha')) writes.set(this, (writes.get(this) ?? 0) + 1)
      return Reflect.apply(Object(original), this, parameters)
    }
    Reflect.set(Socket.prototype, name, watched)
    t.after(() => Reflect.set(Socket.prototype, name, original))
  }
  return () => {
    const counts = [...writes.values()]
    writes.clear()
    return counts
  }
}

function inOneRoundTrip(name: string, open: () => Promise<TestStore>): void {
  for (const algorithm of RATE_ALGORITHMS) {
    test(
      `eight groups with four windows each take one round trip, and one more gives back: ${algorithm}, counted in ${name}`,
      long(),
      async (t) => {
        const { by } = await startGroupApp(t, eightRules(algorithm), { open })
        const ofRedis = name.startsWith('Redis') ? watchRedis(t) : undefined
        // Connections open, and servers learn the script, when they are first asked.
        assert.equal(await by('alice'), 200)
        ofRedis?.()
        const counted = countStatements()
        t.after(() => counted.stop())
        const trips = () => ofRedis?.() ?? [counted.statements.splice(0).filter(isOfCounters).length]
        assert.equal(await by('alice'), 200)
        assert.deepEqual(new Set(trips()), new Set([1]), 'each server is asked once')
        assert.deepEqual([await by('alice'), await by('bob')], [429, 200])
        const asked = trips()
        // The nodes of a cluster have a part of the limits each, and what they give back may come with the next request.
        if (name !== 'Redis Cluster') assert.deepEqual(asked, [3], 'twice to check, once to give back')
      },
    )
  }
}

function isOfCounters(statement: string): boolean {
  return /rate_limit_(counter|sliding_window|token_bucket|leaky_bucket)/.test(statement)
}

forEachStore(inOneRoundTrip)
onRedisCluster(inOneRoundTrip)

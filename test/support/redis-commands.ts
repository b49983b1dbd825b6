/** The commands that the page on Redis lists, and a run of all that this package does there. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Redis } from 'ioredis'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { ALGORITHMS } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import { RedisStore } from '../../src/limiter/stores/redis/redis-store.js'
import { eraseRedisCounters } from '../../src/operations/erasure/erase-state.js'
import { ErasedClient } from '../../src/operations/erasure/erased-client.js'
import { atEnd } from './at-end.js'

const PAGE = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'redis.md'), 'utf8')
const [SENTENCE = ''] = /The user needs the commands [^\n]*/.exec(PAGE) ?? []
export const LISTED = [...SENTENCE.matchAll(/`([A-Z]+)`/g)].map(([, name = '']) => name.toLowerCase()).sort()
const NAMESPACE = 'commands'
/** Every user may send these, whatever the server's rules say. */
const ALWAYS_ALLOWED = new Set(['auth', 'hello', 'quit'])
const NOW_MS = 1_705_161_600_000

/** Lets a user send what the page lists, and nothing else. Returns the names of commands, as they are sent. */
export async function allowListed(t: TestContext, node: Redis): Promise<{ sent: Set<string> }> {
  const commands = LISTED.map((name) => `+${name}`)
  await node.call('ACL', 'SETUSER', 'limits', 'on', '>word', '~fsr:*', 'resetchannels', '-@all', ...commands)
  const monitor = await node.monitor()
  atEnd(t, () => monitor.disconnect())
  const sent = new Set<string>()
  monitor.on('monitor', (_time: string, [name = '']: string[]) => {
    if (!ALWAYS_ALLOWED.has(name.toLowerCase())) sent.add(name.toLowerCase())
  })
  return { sent }
}

/** Does all that this package does in Redis. */
export async function useAll(url: string): Promise<void> {
  const store = new RedisStore({ redis: url, namespace: NAMESPACE })
  try {
    for (const [index, algorithm] of ALGORITHMS.entries()) {
      for (const rate of algorithm === 'concurrency' ? ['9/d'] : ['9/d', '9/h, 20/d']) {
        const policy = toPolicy(algorithm, parseRate(rate))
        const checks = ['a', 'b'].map((key) => ({ key: `${key}${index}${rate}`, policy, cost: 2, permit: index }))
        for (let round = 0; round < 2; round++) {
          const [decision] = await store.check(checks, NOW_MS + round)
          assert.equal(decision?.allowed, true)
        }
        const [decision] = await store.check(checks, NOW_MS)
        const settlements = checks.map((check) => decision && toSettlement(check, decision, NOW_MS))
        await store.settle(
          settlements.filter((settlement) => settlement !== undefined),
          NOW_MS,
        )
      }
    }
    await store.check(
      [{ key: 'default|ip:203.0.113.7', policy: toPolicy('fixed_window', parseRate('9/d')), cost: 1 }],
      NOW_MS,
    )
    const erased = new ErasedClient('203.0.113.7', 64, undefined)
    assert.equal(await eraseRedisCounters(url, NAMESPACE, erased, { dryRun: false, batchSize: 100 }), 1)
    await store.reset(['a'])
    await store.resetAll(['a', 'b'])
    assert.equal(await store.resets(), 3)
  } finally {
    await store.close()
  }
}

export async function deniedBy(node: Redis): Promise<string> {
  return JSON.stringify(await node.call('ACL', 'LOG'))
}

/** Every refusal is counted, and a ban sets the count back, whatever shares a batch with them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatCounter, refusalsLimitName } from '../../src/clients/counter.js'
import { countAddress, underRule } from '../../src/clients/limit-client.js'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { DENIED_LIMIT } from '../../src/http/checked-request.js'
import { RefusalBans, type RefusalBansOptions } from '../../src/http/refusal-bans.js'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { parseCandidate } from '../../src/reports/preview/preview.js'
import { refusalPolicy } from '../../src/rules/ban.js'
import type { NewBan } from '../../src/rules/bans/ban-table.js'
import { fakeClock } from '../support/clock.js'

const NOW_MS = fakeClock().now()
const RULE = parseCandidate({ name: 'api', pathPattern: '^/', rate: '1/m', banAfter: 3, banFor: '1h' })
const CLIENT = underRule(RULE.name, countAddress('203.0.113.7'))
const REFUSED: Decision = { allowed: false, count: 2, limit: 1, remaining: 0, resetMs: 1, retryAfterMs: 1 }

test('a count is set back, also where its batch had a later time', async () => {
  const store = new MemoryStore()
  const { note, bans, written } = start({
    check: async (check, nowMs) => store.checkOne(check, nowMs + SECOND_MS),
    clear: (settlement) => store.settle([settlement]),
  })
  for (let times = 0; times < 3; times++) {
    note()
    await bans.close()
  }
  assert.equal(written.length, 1)
  const key = formatCounter(refusalsLimitName(RULE.name), CLIENT.counted)
  const check: Check = { key, policy: refusalPolicy(RULE.policy, NOW_MS), cost: 0 }
  assert.equal(store.checkOne(check, NOW_MS).count, 0)
})

test('a refusal is counted at whatever step it comes after the last answer', async () => {
  let counted = 0
  const { note, bans } = start({
    check: async ({ cost }) => {
      counted += cost
      return { ...REFUSED, count: 1 }
    },
  })
  for (let steps = 0; steps < 20; steps++) {
    note()
    for (let step = 0; step < steps; step++) await undefined
    note()
  }
  await bans.close()
  assert.equal(counted, 40)
})

function start({
  check,
  clear = () => undefined,
}: Pick<RefusalBansOptions['limiter'], 'check'> & Partial<Pick<RefusalBansOptions, 'clear'>>) {
  const written: NewBan[] = []
  const bans = new RefusalBans({
    limiter: { check },
    writer: { write: async (ban) => written.push(ban) > 0 },
    isAllowed: () => false,
    clear,
    log: { error: assert.fail, warn: assert.fail },
  })
  const ban = bans.forRule(RULE, DENIED_LIMIT)
  const limit = { ...DENIED_LIMIT, ban }
  return { bans, written, note: () => ban?.noteRefusal({ limit, client: CLIENT, decision: REFUSED, nowMs: NOW_MS }) }
}

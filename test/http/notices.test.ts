import assert from 'node:assert/strict'
import { test } from 'node:test'
import Fastify from 'fastify'
import { createClient } from '../../src/clients/client.js'
import { countClient } from '../../src/clients/limit-client.js'
import { createLimit, toAddressClient } from '../../src/http/checked-request.js'
import { Notices } from '../../src/http/notices.js'
import { toTerms } from '../../src/limiter/limit/terms.js'
import { parseRate } from '../../src/limiter/rate.js'
import { collectGarbage } from '../support/garbage.js'

test('notices that wait keep nothing of long texts but what is told', () => {
  const never = new Promise<never>(() => undefined)
  const log = Fastify().log
  const notices = new Notices({ claims: { claim: () => never }, onNotice: undefined, send: () => undefined, log })
  const policy = { ...parseRate('10/h'), algorithm: 'fixed_window' as const }
  const limit = createLimit('a', toTerms(policy, { noticeAt: [80] }), { toClient: toAddressClient })
  const decision = { allowed: true, count: 9, limit: 10, remaining: 1, resetMs: 1, retryAfterMs: null }
  collectGarbage()
  const beforeBytes = process.memoryUsage().heapUsed
  for (let number = 0; number < 2_000; number++) {
    const value = Buffer.from(`${number}`.padEnd(15_000, 'x')).toString('latin1')
    const client = countClient(createClient({ name: 'header:x-api-key', value }))
    notices.note({ limit, client, check: { key: client.counter, policy, cost: 1 } }, decision, 0)
  }
  collectGarbage()
  const keptBytes = process.memoryUsage().heapUsed - beforeBytes
  assert.ok(keptBytes < 2_000 * 3_000, `${keptBytes} bytes are kept`)
})

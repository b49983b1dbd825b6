import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CLIENT, OUTCOME, POLICY } from '../../src/log/event-sql.js'
import { forEachDatabase } from '../support/databases.js'

type Row = readonly [key: string, ruleName: string, allowed: boolean, count: number, client: string, policy: string]

/** Rows that others wrote, with nothing in `client`, `policy` and `outcome`, and how they read. */
const ROWS: readonly (readonly [written: Row, read: readonly [client: string, policy: string, outcome: string]])[] = [
  [
    ['ip:203.0.113.7', '', true, 5, '', ''],
    ['ip:203.0.113.7', 'default', 'allowed'],
  ],
  [
    ['user:7', '', true, 6, '', ''],
    ['user:7', 'default', 'over_limit'],
  ],
  [
    ['IP:7', '', false, 1, '', ''],
    ['', 'default', 'over_limit'],
  ],
  [
    ['tenant-5', '', true, 1, '', ''],
    ['', 'default', 'allowed'],
  ],
  [
    ['rule:api:203.0.113.7', 'api', true, 1, '', ''],
    ['ip:203.0.113.7', 'api', 'allowed'],
  ],
  [
    ['rule:api:2001:db8::/64', 'api', true, 1, '', ''],
    ['ip:2001:db8::/64', 'api', 'allowed'],
  ],
  [
    ['rule:api:user:b0b', 'api', true, 1, '', ''],
    ['user:b0b', 'api', 'allowed'],
  ],
  [
    ['rule:api:secret', 'api', true, 1, '', ''],
    ['', 'api', 'allowed'],
  ],
  [
    ['rule:api:12.5', 'api', true, 1, '', ''],
    ['', 'api', 'allowed'],
  ],
  [
    ['rule:other:203.0.113.7', 'api', true, 1, '', ''],
    ['', 'api', 'allowed'],
  ],
  [
    ['ip:203.0.113.7', 'api', true, 1, 'key:x', '/auth/'],
    ['key:x', '/auth/', 'allowed'],
  ],
]

forEachDatabase((_provider, open) => {
  test('what an event does not say is read from its key, its rule and its count', async (t) => {
    const { client: prisma, database, close } = await open()
    t.after(close)
    for (const [[key, ruleName, allowed, count, client, policy]] of ROWS) {
      const data = { key, ruleName, allowed, count, limit: 5, client, policy, path: '/', method: 'GET' }
      await prisma.rateLimitEvent.create({ data })
    }
    const rows = await database.query<{ client: string; policy: string; outcome: string }>(
      `SELECT ${CLIENT} AS client, ${POLICY} AS policy, ${OUTCOME} AS outcome
       FROM ${database.dialect.table('rate_limit_event')} ORDER BY id`,
    )
    assert.deepEqual(
      rows.map(({ client, policy, outcome }) => [client, policy, outcome]),
      ROWS.map(([, read]) => read),
    )
  })
})

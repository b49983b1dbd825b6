/** Usage counts each charge once, whatever befalls the database and, but for the last second, the server. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, type TestContext, test } from 'node:test'
import type { Database } from '../../src/database/database.js'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { startProxyBefore } from '../support/tcp-proxy.js'
import type { Charged, UsageLine } from '../support/usage-load.js'

const PROCESSES = 4
const WAIT_MS = 30_000

/** Starts `test/support/usage-load.ts`. */
function startLoad(t: TestContext, plugin: RateLimitOptions) {
  const script = modulePath('test/support/usage-load')
  const child: ChildProcess = spawn(process.execPath, [...LOADER, script, JSON.stringify(plugin)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  let last: UsageLine = { charged: {}, spooled: 0 }
  if (child.stdout !== null) createInterface(child.stdout).on('line', (line) => (last = JSON.parse(line)))
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  atEnd(t, kill)
  return {
    last: () => last,
    /** Resolves when it has charged so many more requests. */
    goesOn: async (requests = 2_000) => {
      const before = sum(last.charged, 1)
      await eventually('it charges', () => sum(last.charged, 1) >= before + requests, WAIT_MS)
    },
    kill,
    async end() {
      child.stdin?.end()
      await closed
      assert.equal(child.exitCode, 0)
      return last.charged
    },
  }
}

function sum(charged: Charged, index: 0 | 1): number {
  return Object.values(charged).reduce((total, sums) => total + sums[index], 0)
}

function addUp(all: readonly Charged[]): Charged {
  const total: Charged = {}
  for (const [client, [amount, requests]] of all.flatMap((charged) => Object.entries(charged))) {
    const [otherAmount, otherRequests] = total[client] ?? [0, 0]
    total[client] = [otherAmount + amount, otherRequests + requests]
  }
  return total
}

/** Reads what the table has of each client. Midnight may pass meanwhile. */
async function usageIn({ dialect, query }: Database, span: 'day' | 'month' = 'day'): Promise<Charged> {
  const rows = await query<{ client: string; amount: number; requests: number }>(
    `SELECT client, SUM(amount) AS amount, SUM(requests) AS requests FROM ${dialect.table('rate_limit_usage')}
     WHERE span = $1 GROUP BY client ORDER BY client`,
    [span],
  )
  return Object.fromEntries(rows.map(({ client, amount, requests }) => [client, [Number(amount), Number(requests)]]))
}

async function openFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Lets four processes charge the same clients through an outage, and proves that the table has each charge once. */
async function proveExact(
  t: TestContext,
  database: Database,
  plugin: RateLimitOptions,
  disturb: (goOn: () => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const loads = Array.from({ length: PROCESSES }, () => startLoad(t, plugin))
  const goOn = () => Promise.all(loads.map((load) => load.goesOn()))
  await goOn()
  await disturb(goOn)
  await goOn()
  const charged = addUp(await Promise.all(loads.map((load) => load.end())))
  assert.deepEqual(await usageIn(database), sorted(charged))
  assert.deepEqual(await usageIn(database, 'month'), sorted(charged))
}

function sorted(charged: Charged): Charged {
  return Object.fromEntries(Object.entries(charged).sort(([one], [other]) => (one < other ? -1 : 1)))
}

describe('four processes, and the sum of usage is what was charged, when PostgreSQL', {
  skip: postgresqlMissing,
}, () => {
  for (const withSpool of [false, true]) {
    test(
      `does its work, and its answers are lost, and then is away${withSpool ? ', with a spool' : ''}`,
      long(),
      async (t) => {
        const { database, url: server, schema } = await openDatabase(t, 'postgresql')
        const { proxy, url } = await startProxyBefore(t, server, 5432)
        const spool = withSpool ? { eventSpool: await openFolder(t) } : {}
        await proveExact(t, database, { database: url, schema, ...spool }, async (goOn) => {
          proxy.loseAnswers(true)
          await goOn()
          proxy.loseAnswers(false)
          await goOn()
          await proxy.switchOff()
          await goOn()
          await proxy.switchOn()
        })
      },
    )
  }

  test('is away while a server is killed: the next one writes what it spooled', long(), async (t) => {
    const { database, url: server, schema } = await openDatabase(t, 'postgresql')
    const { proxy, url } = await startProxyBefore(t, server, 5432)
    const plugin = { database: url, schema, eventSpool: await openFolder(t) }
    const load = startLoad(t, plugin)
    await load.goesOn()
    await proxy.switchOff()
    const { charged: before } = load.last()
    // The first group may have been taken before.
    for (const group of ['a group', 'another group']) {
      const { spooled } = load.last()
      await eventually(`${group} is spooled`, () => load.last().spooled > spooled, WAIT_MS)
    }
    await load.kill()
    await proxy.switchOn()
    const next = startLoad(t, plugin)
    await next.goesOn(1)
    await eventually(
      'what was charged before is there',
      async () => {
        return sum(await usageIn(database), 0) >= sum(before, 0) + sum(next.last().charged, 0)
      },
      WAIT_MS,
    )
  })
})

test(
  'four processes, and the sum of usage is what was charged, when another holds the SQLite file',
  long(),
  async (t) => {
    const { database, url } = await openDatabase(t, 'sqlite')
    const other = openSqliteFile(url.slice('file:'.length))
    atEnd(t, () => other.close())
    await proveExact(t, database, { database: url }, async (goOn) => {
      other.exec('BEGIN IMMEDIATE')
      await goOn()
      other.exec('COMMIT')
    })
  },
)

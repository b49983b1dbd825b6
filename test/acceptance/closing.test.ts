/** An app that closes has one deadline for all of its parts, whatever hangs. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { Components } from '../../src/ground/components.js'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { captureLog, openDatabase, startApp, WARN } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openNamedPostgresql } from '../support/named-postgresql.js'

const NEVER = new Promise<void>(() => undefined)

function openComponents() {
  const { stream, log } = captureLog()
  const app = Fastify({ logger: { level: 'warn', stream } })
  const components = new Components(app.log)
  app.addHook('onClose', () => components.close())
  return { app, log, components }
}

test('parts that never close do not keep others from closing, and are named in the log once', async (t) => {
  const { app, log, components } = openComponents()
  const closed: string[] = []
  const part = (name: string, end: Promise<void>) => ({
    close: () => {
      closed.push(name)
      return end
    },
  })
  components.open('first', part('first', Promise.resolve()))
  components.connect('database', part('database', NEVER))
  components.open('second', part('second', NEVER))
  components.open('third', part('third', Promise.resolve()))
  components.open('fourth', part('fourth', NEVER))
  await app.ready()

  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  let isClosed = false
  const closing = app.close().then(() => {
    isClosed = true
  })
  for (let rounds = 0; rounds <= 30 && !isClosed; rounds++) {
    for (let turns = 0; turns < 5; turns++) await turn()
    nowMs += 100
    t.mock.timers.tick(100)
  }
  assert.ok(isClosed)
  await closing
  assert.deepEqual(closed, ['fourth', 'third', 'second', 'first', 'database'])
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ['Rate limit: not closed within 3 seconds, and given up: fourth, second, database'],
  )
})

test('a part closes when those that were opened after it are closed, and connections when all are', async () => {
  const { app, log, components } = openComponents()
  const steps: string[] = []
  const part = (name: string) => ({
    async close() {
      steps.push(`${name} begins`)
      for (let turns = 0; turns < 5; turns++) await turn()
      steps.push(`${name} ends`)
    },
  })
  components.connect('database', part('database'))
  components.open('first', part('first'))
  components.open('second', part('second'))
  await app.close()
  const names = ['second', 'first', 'database']
  assert.deepEqual(
    steps,
    names.flatMap((name) => [`${name} begins`, `${name} ends`]),
  )
  assert.deepEqual(log, [])
})

/** Closes an app whose database hangs, and proves that its events are in the spool. */
async function proveNothingIsLost(t: TestContext, plugin: RateLimitOptions, hang: () => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  const options: RateLimitOptions = { logEvents: true, useDynamicRules: true, eventSpool: folder }
  const { app, log, statuses } = await startApp(t, {
    database: null,
    plugin: { ...options, ...plugin, middleware: { backend: 'database', defaultRate: '1000/d', lease: '1s' } },
  })
  await statuses(2, '/')
  const { events } = app.smartRateLimit
  await eventually('they are written', () => events.stats().written === 2)
  hang()
  await statuses(20, '/')
  await app.close()
  const { written, dropped, buffered, spooled } = events.stats()
  assert.deepEqual({ dropped, buffered, all: written + spooled }, { dropped: 0, buffered: 0, all: 22 })
  assert.ok(log.filter(({ level, msg }) => level >= WARN && msg.includes('is given up')).length <= 1)
}

test('the events of an app that closes while its SQLite file is locked are in the spool', long(), async (t) => {
  const { url } = await openDatabase(t, 'sqlite')
  const other = openSqliteFile(url.slice('file:'.length))
  atEnd(t, () => other.close())
  await proveNothingIsLost(t, { database: url }, () => other.exec('BEGIN IMMEDIATE'))
})

describe('with PostgreSQL', { skip: postgresqlMissing }, () => {
  test('the events of an app that closes while its database hangs are in the spool', long(), async (t) => {
    const { url, schema, proxy } = await openNamedPostgresql(t)
    await proveNothingIsLost(t, { database: url, schema }, () => proxy.hang())
  })
})

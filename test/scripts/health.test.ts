import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { openDatabase } from '../support/build-app.js'
import { openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { startMailServer } from '../support/mail-server.js'
import { ratelimit } from '../support/scripts.js'
import { closedPort } from '../support/tcp-proxy.js'

describe('ratelimit health', () => {
  test('prints a line per check, and is status 0 where all is well', async (t) => {
    const { url, client, database } = await openDatabase(t, 'sqlite')
    const { url: smtpUrl, mails } = await startMailServer(t)
    await client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '5/m' } })
    await database.execute(`INSERT INTO rate_limit_rule (name, path_pattern, rate) VALUES ('broken', '[', '5/m')`)
    await logEvents(client, { key: 'user:7', allowed: 1, atMs: Date.now() - 90_000 })
    await database.execute(`INSERT INTO rate_limit_usage VALUES ('day', '2026-11-30', 'tokens', 'user:7', 'api', 5, 1)`)
    const env = {
      RATELIMIT_DATABASE_URL: url,
      RATELIMIT_ALERT_EMAILS: 'ops@example.com',
      DEFAULT_FROM_EMAIL: 'alerts@example.com',
      SMTP_URL: smtpUrl,
    }
    const { status, stdout, stderr } = await ratelimit(['health'], { env })

    assert.deepEqual([status, stderr, mails], [0, '', []])
    const lines = stdout.trimEnd().split('\n')
    assert.equal(lines.length, 11)
    assert.match(lines[0] ?? '', /^ok {7}database {2}file:.* answers, and is migrated$/)
    assert.match(lines[1] ?? '', /^off {6}redis {5}not used$/)
    assert.equal(lines[2], 'ok       rules     1 active rule; left out, being wrong: "broken"')
    assert.equal(lines[3], 'off      log       not used')
    assert.match(lines[4] ?? '', /^ok {7}events {4}the last one is 9\d s old$/)
    assert.equal(lines[5], 'ok       usage     the last is of 2026-11-30')
    assert.equal(lines[6], 'ok       charges   each server knows its own: see its health and metrics')
    assert.equal(lines[7], 'ok       lists     each server knows its own: see its health and metrics')
    assert.equal(lines[8], 'ok       mail      the mail server accepts a sign-in')
    assert.equal(lines[9], 'ok       schedule  nothing was due yet')
  })

  test('is status 1 where something fails, and names it without its password', async (t) => {
    const { url } = await openDatabase(t, 'sqlite')
    const env = {
      RATELIMIT_DATABASE_URL: url,
      RATELIMIT_REDIS_URL: `redis://:hunter2@127.0.0.1:${await closedPort()}`,
      RATELIMIT_ALERT_EMAILS: 'ops@example.com',
      DEFAULT_FROM_EMAIL: 'alerts@example.com',
      SMTP_URL: `smtp://somebody:hunter2@127.0.0.1:${await closedPort()}`,
    }
    const { status, stdout, stderr } = await ratelimit(['health', '--json'], { env })

    assert.equal(status, 1)
    const { ok, ready, checks } = JSON.parse(stdout)
    assert.deepEqual([ok, ready, checks.redis.status, checks.mail.status], [false, false, 'failing', 'failing'])
    assert.match(stderr, /^ratelimit health: redis fails: .*\nratelimit health: mail fails: .*\n$/)
    assert.doesNotMatch(stdout + stderr, /hunter2/)
  })

  test('does not create the file that it misses', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-health-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    const { status, stderr } = await ratelimit(['health'], {
      env: { RATELIMIT_DATABASE_URL: `file:${join(folder, 'missing.db')}` },
    })

    assert.equal(status, 1)
    assert.match(stderr, /^ratelimit health: database fails: there is no database at .*missing\.db\n$/)
    assert.deepEqual(await readdir(folder), [])
  })

  test('says of a PostgreSQL that lacks its tables what to do', { skip: postgresqlMissing }, async (t) => {
    const { url, schema, close } = await openTestDatabase('postgresql')
    t.after(close)
    const env = { RATELIMIT_DATABASE_URL: url }
    assert.equal((await ratelimit(['health', '--schema', schema], { env })).status, 0)
    const { status, stderr } = await ratelimit(['health', '--schema', `${schema}_new`], { env })

    assert.equal(status, 1)
    assert.match(stderr, /^ratelimit health: database fails: .*"ratelimit migrate( --schema \w+)?"$/m)
  })
})

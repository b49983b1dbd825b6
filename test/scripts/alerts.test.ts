import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { forAnyDatabase, openTestDatabase, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { startMailServer } from '../support/mail-server.js'
import { ratelimit, runScript } from '../support/scripts.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

const DISABLED = 'Alerting disabled (set --threshold or RATELIMIT_ALERT_THRESHOLD).\n'

describe('ratelimit alerts', () => {
  let database: TestDatabase
  before(async () => {
    database = await openTestDatabase('sqlite')
    const atMs = Date.now() - 60_000
    await logEvents(database.client, { key: 'ip:192.0.2.1', blocked: 5, allowed: 2, atMs })
    await logEvents(database.client, { key: 'ip:192.0.2.2', blocked: 4, atMs })
    await logEvents(database.client, { key: 'ip:192.0.2.3', blocked: 3, allowed: 9, atMs })
    await logEvents(database.client, { key: 'rule:keys:\u001b[31mred\u202e', blocked: 2, atMs })
    await logEvents(database.client, { key: 'ip:192.0.2.9', blocked: 9, atMs: atMs - 2 * DAY_MS })
  })
  after(() => database.close())

  function alerts(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    return ratelimit(['alerts', ...args], { env: { RATELIMIT_DATABASE_URL: database.url, ...env } })
  }

  test('without a threshold it says that alerting is disabled, and opens no database', async () => {
    const env = { RATELIMIT_DATABASE_URL: 'file:/nowhere/at/all.db' }
    assert.deepEqual(await alerts([], env), { status: 0, stdout: DISABLED, stderr: '' })
    assert.deepEqual(JSON.parse((await alerts(['--json'], env)).stdout), {
      enabled: false,
      offenders: [],
      channels: {},
    })
  })

  test('--dry-run lists the offenders, the most refused first', async () => {
    assert.deepEqual(await alerts(['--threshold', '4', '--dry-run']), {
      status: 0,
      stdout: '2 offender(s) >= 4 blocked in 1 day(s):\n  ip:192.0.2.1: 5\n  ip:192.0.2.2: 4\n',
      stderr: '',
    })
  })

  test('the threshold comes from the setting where the option is absent', async () => {
    const { stdout } = await alerts(['--dry-run'], { RATELIMIT_ALERT_THRESHOLD: '5' })
    assert.match(stdout, /^1 offender\(s\) >= 5 blocked in 1 day\(s\):\n/)
  })

  test('--days widens the window, and --threshold goes before the setting', async () => {
    const { stdout } = await alerts(['--threshold', '6', '--days', '3', '--dry-run'], {
      RATELIMIT_ALERT_THRESHOLD: '1',
    })
    assert.equal(stdout, '1 offender(s) >= 6 blocked in 3 day(s):\n  ip:192.0.2.9: 9\n')
  })

  test('without a channel it says so, and lists the offenders', async () => {
    assert.deepEqual(await alerts(['--threshold', '3']), {
      status: 0,
      stdout:
        '3 offender(s) over threshold 3; channels: none configured\n' +
        '  ip:192.0.2.1: 5\n  ip:192.0.2.2: 4\n  ip:192.0.2.3: 3\n',
      stderr: '',
    })
  })

  test('--json is the result of sendOffenderAlerts', async () => {
    const { status, stdout } = await alerts(['--threshold', '5', '--json'])
    assert.equal(status, 0)
    assert.deepEqual(JSON.parse(stdout), {
      enabled: true,
      threshold: 5,
      days: 1,
      offenders: [{ key: 'ip:192.0.2.1', blocked_count: 5 }],
      channels: {},
      dry_run: false,
    })
  })

  test('a key cannot send commands to the terminal', async () => {
    const text = await alerts(['--threshold', '2', '--dry-run'])
    assert.match(text.stdout, /^ {2}rule:keys:\\u001b\[31mred\\u202e: 2$/m)
    const json = await alerts(['--threshold', '2', '--dry-run', '--json'])
    // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for them is the point
    assert.doesNotMatch(json.stdout, /[\u0000-\u0009\u001b\u202e]/)
    assert.equal(JSON.parse(json.stdout).offenders.at(-1).key, 'rule:keys:\u001b[31mred\u202e')
  })

  test('a threshold that is none is wrong usage', async () => {
    assert.deepEqual(await alerts(['--threshold', '-3', '--dry-run']), {
      status: 2,
      stdout: '',
      stderr:
        "ratelimit alerts: option '--threshold <int>' argument '-3' is invalid. Give a whole number of refused requests, 1 to 2147483647 (see ratelimit alerts --help)\n",
    })
  })

  test('a threshold of the environment that is no threshold is status 1', async () => {
    const { status, stderr } = await alerts([], { RATELIMIT_ALERT_THRESHOLD: '0' })
    assert.equal(status, 1)
    assert.match(stderr, /RATELIMIT_ALERT_THRESHOLD/)
  })

  test('sends by email and by webhook, as the environment says, and prints the outcome', async (t) => {
    const { url: smtpUrl, mails } = await startMailServer(t)
    const receiver = await startWebhookReceiver(t)
    const { status, stdout, stderr } = await alerts(['--threshold', '4'], {
      RATELIMIT_ALERT_EMAILS: 'ops@example.com,dev@example.com',
      DEFAULT_FROM_EMAIL: 'alerts@example.com',
      SMTP_URL: smtpUrl,
      RATELIMIT_ALERT_WEBHOOK: receiver.url,
    })

    assert.deepEqual([status, stderr], [0, ''])
    assert.equal(
      stdout,
      '2 offender(s) over threshold 4; channels: email sent, webhook sent\n  ip:192.0.2.1: 5\n  ip:192.0.2.2: 4\n',
    )
    assert.deepEqual(
      mails.map(({ to }) => to),
      [['ops@example.com', 'dev@example.com']],
    )
    assert.deepEqual(
      receiver.posts.map(({ body }) => JSON.parse(body).offenders.length),
      [2],
    )
  })

  test('a channel that fails is status 1 and a line on stderr, and the other one sends', async (t) => {
    const { url: smtpUrl, mails } = await startMailServer(t)
    const receiver = await startWebhookReceiver(t, 404)
    const { status, stdout, stderr } = await alerts(['--threshold', '5'], {
      RATELIMIT_ALERT_EMAILS: 'ops@example.com',
      DEFAULT_FROM_EMAIL: 'alerts@example.com',
      SMTP_URL: smtpUrl,
      RATELIMIT_ALERT_WEBHOOK: receiver.url,
    })

    assert.equal(status, 1)
    assert.match(stdout, /^1 offender\(s\) over threshold 5; channels: email sent, webhook failed \(status 404\)\n/)
    assert.equal(stderr, 'ratelimit alerts: Rate limit alert by webhook failed: status 404\n')
    assert.equal(mails.length, 1)
  })

  test('recipients without a mail server are reported by the run', async () => {
    const { status, stdout, stderr } = await alerts(['--threshold', '5', '--json'], {
      RATELIMIT_ALERT_EMAILS: 'ops@example.com',
    })

    assert.equal(status, 1)
    assert.match(JSON.parse(stdout).channels.email.error, /^no mail server: set SMTP_URL/)
    assert.match(stderr, /^ratelimit alerts: Rate limit alert by email failed: no mail server: .*\n$/)
  })

  test('of runs at once, and one after the other, a cool-down lets one send', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const env = { RATELIMIT_ALERT_WEBHOOK: receiver.url, RATELIMIT_ALERT_COOLDOWN: '3600' }
    const runs = await Promise.all(Array.from({ length: 3 }, () => alerts(['--threshold', '5'], env)))
    const later = await alerts(['--threshold', '5'], env)

    assert.equal(receiver.posts.length, 1)
    assert.deepEqual(runs.map(({ stdout }) => /channels: (.*)/.exec(stdout)?.[1]).sort(), [
      'webhook quiet (1 within the cool-down)',
      'webhook quiet (1 within the cool-down)',
      'webhook sent',
    ])
    assert.deepEqual([later.status, later.stderr], [0, ''])
  })

  test('where no client is over the threshold there is nothing to send', async (t) => {
    const receiver = await startWebhookReceiver(t)
    assert.deepEqual(await alerts(['--threshold', '100'], { RATELIMIT_ALERT_WEBHOOK: receiver.url }), {
      status: 0,
      stdout: '0 offender(s) over threshold 100; channels: nothing to send\n',
      stderr: '',
    })
    assert.equal(receiver.posts.length, 0)
  })
})

test('of processes that alert at once about a PostgreSQL, a cool-down lets one send', {
  skip: postgresqlMissing,
}, async (t) => {
  const { client, url, schema, close } = await openTestDatabase('postgresql')
  t.after(close)
  const receiver = await startWebhookReceiver(t)
  await logEvents(client, { key: 'ip:192.0.2.1', blocked: 5, atMs: Date.now() - 60_000 })
  const env = {
    RATELIMIT_DATABASE_URL: url,
    RATELIMIT_ALERT_WEBHOOK: receiver.url,
    RATELIMIT_ALERT_COOLDOWN: '3600',
  }
  const runs = await Promise.all(
    Array.from({ length: 3 }, () => ratelimit(['alerts', '--threshold', '5', '--schema', schema], { env })),
  )

  assert.deepEqual(
    runs.map(({ status }) => status),
    [0, 0, 0],
  )
  assert.equal(receiver.posts.length, 1)
})

forAnyDatabase((_provider, open) => {
  test('with --incidents processes that run at once send one message for each incident, and later ones none', async (t) => {
    const { client, url, schema, close } = await open()
    t.after(close)
    const receiver = await startWebhookReceiver(t)
    await logEvents(client, { key: 'user:\u001b[31m7', blocked: 60, atMs: Date.now() })
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_ALERT_WEBHOOK: receiver.url }
    const command = ['alerts', '--incidents', ...(schema === undefined ? [] : ['--schema', schema])]
    const listed = await ratelimit([...command, '--dry-run'], { env })
    assert.deepEqual([listed.status, receiver.posts.length], [0, 0])
    assert.match(
      listed.stdout,
      /^1 incident in the last day:\n {2}user:\\u001b\[31m7: 60 refused since \S+ \(open\)\n$/,
    )

    const runs = await Promise.all(Array.from({ length: 3 }, () => runScript('ratelimit', command, { env })))
    assert.equal(receiver.posts.length, 1)
    assert.equal(JSON.parse(receiver.posts[0]?.body ?? '').incident.refused, 60)
    const channels = runs.map(({ stdout }) => /channels: (.*)/.exec(stdout)?.[1])
    assert.deepEqual(channels.toSorted(), ['webhook told 0', 'webhook told 0', 'webhook told 1'])
    const { channels: later } = JSON.parse((await ratelimit([...command, '--json'], { env })).stdout)
    assert.deepEqual(later, { webhook: { told: 0 } })
  })

  test('with --incidents a channel that fails is status 1, and --threshold is wrong usage', async (t) => {
    const { client, url, schema, close } = await open()
    t.after(close)
    const receiver = await startWebhookReceiver(t, 404)
    await logEvents(client, { key: 'user:7', blocked: 60, atMs: Date.now() })
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_ALERT_WEBHOOK: receiver.url }
    const command = ['alerts', '--incidents', ...(schema === undefined ? [] : ['--schema', schema])]
    const { status, stdout, stderr } = await ratelimit(command, { env })
    assert.equal(status, 1)
    assert.match(stdout, /^1 incident in the last day; channels: webhook told 0, failed \(status 404\)\n/)
    assert.equal(stderr, 'ratelimit alerts: Rate limit alert by webhook failed: status 404\n')
    assert.equal((await ratelimit([...command, '--threshold', '5'], { env })).status, 2)
    const none = await ratelimit(command, { env: { RATELIMIT_DATABASE_URL: url } })
    assert.equal(none.stdout, 'No alert was sent: no channel is configured\n')
  })
})

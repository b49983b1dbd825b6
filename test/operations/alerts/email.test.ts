import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTransport } from 'nodemailer'
import { SHORT_TIMES, startAlerts } from '../../support/alerts.js'
import { logRows } from '../../support/events.js'
import { headerOf, partOf, startMailServer } from '../../support/mail-server.js'
import { closedPort } from '../../support/tcp-proxy.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const FROM = 'Rate limits <alerts@example.com>'

describe('an alert by email', () => {
  test('has the offenders, the window and the threshold, in text and in HTML, and no key in its subject', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 20)
    await block('user:<b>&7', 6)
    const alertEmails = ['ops@example.com']
    const { sendOffenderAlerts } = analytics({ alertThreshold: 5, alertEmails, defaultFromEmail: FROM, smtpUrl: url })

    assert.deepEqual(await sendOffenderAlerts(), {
      enabled: true,
      threshold: 5,
      days: 1,
      offenders: [
        { key: 'ip:203.0.113.7', blocked_count: 20 },
        { key: 'user:<b>&7', blocked_count: 6 },
      ],
      channels: { email: { sent: true, to: ['ops@example.com'] } },
    })
    assert.equal(mails.length, 1)
    const [{ raw = '', from, to } = {}] = mails
    assert.deepEqual([from, to], ['alerts@example.com', ['ops@example.com']])
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] 2 offender(s) alert')
    assert.equal(headerOf(raw, 'From'), FROM)
    assert.equal(headerOf(raw, 'To'), 'ops@example.com')
    assert.equal(headerOf(raw, 'Auto-Submitted'), 'auto-generated')
    assert.equal(
      partOf(raw, 'text/plain').replaceAll('\r\n', '\n').trimEnd(),
      '2 keys were refused 5 times or more in 1 day. A client has a key for each rule that refused it.\n\n' +
        '  ip:203.0.113.7: 20\n  user:<b>&7: 6\n\n' +
        'Window: the last 1 day. Threshold: 5 refused requests.',
    )
    const html = partOf(raw, 'text/html')
    assert.match(html, />ip:203\.0\.113\.7<\/td>\s*<td[^>]*>20<\/td>/)
    assert.match(html, />user:&lt;b&gt;&amp;7<\/td>/)
  })

  test('links each offender to its page, where the address of the dashboard is known', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 20)
    await block('rule:login:"><script>&a=b', 6)
    const publicUrl = 'https://example.com/ops/dashboard'
    const { sendOffenderAlerts } = analytics({ alertThreshold: 5, defaultFromEmail: FROM, smtpUrl: url, publicUrl })
    await sendOffenderAlerts({ emailTo: 'ops@example.com', days: 7 })

    const [{ raw = '' } = {}] = mails
    const hostile = 'search.html?q=rule%3Alogin%3A%22%3E%3Cscript%3E%26a%3Db&days=7'
    const lines = partOf(raw, 'text/plain').split('\r\n')
    assert.deepEqual(lines.slice(2, 6), [
      '  ip:203.0.113.7: 20',
      `    ${publicUrl}/client.html?client=ip%3A203.0.113.7&days=7`,
      '  rule:login:"><script>&a=b: 6',
      `    ${publicUrl}/${hostile}`,
    ])
    const html = partOf(raw, 'text/html').replaceAll('&#x3D;', '=')
    assert.ok(html.includes(`href="${publicUrl}/client.html?client=ip%3A203.0.113.7&amp;days=7">ip:203.0.113.7</a>`))
    assert.ok(html.includes(`href="${publicUrl}/${hostile.replace('&', '&amp;')}">rule:login:&quot;&gt;&lt;script&gt;`))
    assert.doesNotMatch(html, /<script/)
  })

  test('lists a hundred offenders, and says how many more there are', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, database, clock } = await startAlerts(t)
    const refused = { timestampMs: clock.now(), allowed: false, outcome: 'over_limit' } as const
    await logRows(
      database.database,
      Array.from({ length: 103 }, (_, place) => ({ ...refused, key: `user:${place}` })),
    )
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl: url })
    const { offenders } = await sendOffenderAlerts({ threshold: 1, emailTo: 'ops@example.com' })

    assert.equal(offenders.length, 103)
    const [{ raw = '' } = {}] = mails
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] 103 offender(s) alert')
    const lines = partOf(raw, 'text/plain').split('\r\n')
    assert.equal(lines.filter((line) => line.startsWith('  user:')).length, 100)
    assert.ok(lines.includes('  and 3 more'))
  })

  test('goes to several recipients as one mail, in which none sees the others', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl: url })
    const emailTo = ['first@example.com', 'second@example.com']
    await sendOffenderAlerts({ threshold: 5, emailTo })

    assert.equal(mails.length, 1)
    assert.deepEqual(mails[0]?.to, emailTo)
    assert.doesNotMatch(mails[0]?.raw ?? '', /(?:first|second)@/)
  })

  test('shows what hides in a key, and takes no header from it', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('rule:api:x\r\nBcc: all@example.com\r\n\r\n\u202eevil{{threshold}}', 5)
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl: url })
    await sendOffenderAlerts({ threshold: 5, emailTo: 'ops@example.com' })

    const [{ raw = '', to } = {}] = mails
    assert.deepEqual(to, ['ops@example.com'])
    assert.equal(headerOf(raw, 'Bcc'), undefined)
    for (const type of ['text/plain', 'text/html']) {
      assert.ok(
        partOf(raw, type).includes(
          'rule:api:x\\u{d}\\u{a}Bcc: all@example.com\\u{d}\\u{a}\\u{d}\\u{a}\\u{202e}evil{{threshold}}',
        ),
      )
    }
  })

  test('is not sent where no client is over the threshold', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 4)
    const settings = { alertThreshold: 5, alertEmails: ['ops@example.com'], defaultFromEmail: FROM, smtpUrl: url }
    const { offenders, channels } = await analytics(settings).sendOffenderAlerts()

    assert.deepEqual([offenders, channels, mails], [[], {}, []])
  })

  test('goes through the transport of the host, which stays open', async (t) => {
    const { url, mails } = await startMailServer(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const mailer = createTransport({ url, pool: true })
    t.after(() => mailer.close())
    const { sendOffenderAlerts } = analytics({
      alertThreshold: 5,
      alertEmails: ['ops@example.com'],
      defaultFromEmail: FROM,
      mailer,
    })
    await sendOffenderAlerts()
    await sendOffenderAlerts()

    assert.equal(mails.length, 2)
  })
})

describe('an email that cannot be sent', () => {
  const emailTo = 'ops@example.com'

  test('is reported and logged where the mail server, the sender or the recipient is missing', async (t) => {
    const { analytics, block, log } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const run = async (options: object, to: string = emailTo) => {
      const { channels } = await analytics(options).sendOffenderAlerts({ threshold: 5, emailTo: to })
      assert.equal(channels.email?.sent, false)
      return channels.email?.error ?? ''
    }

    assert.match(await run({ defaultFromEmail: FROM }), /^no mail server: set SMTP_URL/)
    assert.match(await run({ smtpUrl: 'smtp://127.0.0.1:9' }), /^no sender: set DEFAULT_FROM_EMAIL/)
    assert.match(await run({}, 'a@example.com, b@example.com'), /is not a valid mail address/)
    assert.match(await run({}, 'a@example.com\r\nBcc: b@example.com'), /is not a valid mail address/)
    assert.equal(log.length, 4)
    assert.match(log[0]?.message ?? '', /^Rate limit alert by email failed: no mail server/)
  })

  test('takes no other channel down, and shows no password', async (t) => {
    const webhook = await startWebhookReceiver(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const smtpUrl = `smtp://somebody:hunter2@127.0.0.1:${await closedPort()}`
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl, alertWebhook: webhook.url })
    const { channels } = await sendOffenderAlerts({ threshold: 5, emailTo })

    assert.equal(channels.email?.sent, false)
    assert.match(channels.email?.error ?? '', /ECONNREFUSED/)
    assert.doesNotMatch(JSON.stringify(channels), /hunter2/)
    assert.deepEqual(channels.webhook, { sent: true })
    assert.equal(webhook.posts.length, 1)
  })

  test('to a server that says nothing is given up in time', async (t) => {
    const { url } = await startMailServer(t, { isSilent: true })
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const startedMs = performance.now()
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl: url }, SHORT_TIMES)
    const { channels } = await sendOffenderAlerts({ threshold: 5, emailTo })

    assert.equal(channels.email?.sent, false)
    assert.match(channels.email?.error ?? '', /did not answer within 0\.4 s|timeout|Greeting/i)
    assert.ok(performance.now() - startedMs < 5_000)
  })

  test('for want of the right password is reported without it, and with that password it is sent', async (t) => {
    const { url, mails } = await startMailServer(t, { account: { user: 'somebody', password: 'p@ss:w/ord' } })
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const run = async (password: string) => {
      const smtpUrl = url.replace('//', `//somebody:${encodeURIComponent(password)}@`)
      return (await analytics({ defaultFromEmail: FROM, smtpUrl }).sendOffenderAlerts({ threshold: 5, emailTo }))
        .channels
    }

    const { email } = await run('hunter2')
    assert.equal(email?.sent, false)
    assert.match(email?.error ?? '', /authentication failed/)
    assert.doesNotMatch(email?.error ?? '', /hunter2/)
    assert.equal((await run('p@ss:w/ord')).email?.sent, true)
    assert.equal(mails.length, 1)
  })

  test('refused for some of its recipients is reported, and sent to the others', async (t) => {
    const { url, mails } = await startMailServer(t, { refuses: ['gone@example.com'] })
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 5)
    const to = ['ops@example.com', 'gone@example.com']
    const { sendOffenderAlerts } = analytics({ defaultFromEmail: FROM, smtpUrl: url })
    const { channels } = await sendOffenderAlerts({ threshold: 5, emailTo: to })

    assert.deepEqual(channels.email, { sent: false, to, error: 'the mail server refused 1 of 2 recipients' })
    assert.deepEqual(mails[0]?.to, ['ops@example.com'])
  })
})

/** A wrong setting of alerts is refused at start, by its name and what is allowed; secrets are not shown. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolveSettings } from '../../../src/plugin/settings/resolve.js'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

for (const [options, complaint] of [
  [{ alertEmails: 'ops@example.com' }, /"alertEmails".*list of mail addresses/],
  [{ alertEmails: ['ops'] }, /"alertEmails" has "ops": give addresses such as/],
  [{ alertEmails: ['a@example.com\nBcc: b@example.com'] }, /"alertEmails" has/],
  [{ alertEmails: ['a@example.com,b@example.com'] }, /"alertEmails" has/],
  [{ defaultFromEmail: 'nobody' }, /"defaultFromEmail" has "nobody": give a sender/],
  [{ defaultFromEmail: 'Ops\r\nBcc: <a@example.com>' }, /"defaultFromEmail" has/],
  [{ alertCooldown: -1 }, /"alertCooldown" is -1: give seconds, 0 to 31536000/],
  [{ alertResolved: true }, /"alertResolved" is true without "alertCooldown".*RATELIMIT_ALERT_COOLDOWN/],
  [{ alertWebhookFormat: 'irc' }, /"alertWebhookFormat" is "irc": give json, slack, teams, discord, pagerduty/],
  [{ alertWebhookFormat: 'pagerduty' }, /"pagerduty" without "alertRoutingKey".*RATELIMIT_ALERT_ROUTING_KEY/],
  [{ publicUrl: 'example.com/ops' }, /"publicUrl" is not a valid address of a dashboard: give one such as https:/],
  [{ publicUrl: 'javascript:alert(1)' }, /"publicUrl" is not a valid address/],
  [{ publicUrl: 'https://example.com/ops/?days=1' }, /"publicUrl" is not a valid address.*without a query/],
  [{ mailer: {} }, /"mailer" has no function "sendMail"/],
  [{ blockPrivateNetworks: 'yes' }, /"blockPrivateNetworks" is "yes": give true or false/],
] as const) {
  test(`${JSON.stringify(options)} is refused`, () => {
    // Wrong on purpose.
    assert.throws(() => resolveSettings(options as object, {}), complaint)
  })
}

for (const [options, complaint] of [
  [{ alertWebhook: 'ftp://example.com/hunter2' }, /"alertWebhook" is not a valid URL: give one of http or https/],
  [{ alertWebhook: 'hunter2' }, /"alertWebhook" is not a valid URL/],
  [{ alertWebhook: 'https://user:hunter2%@example.com' }, /"alertWebhook" is not a valid URL.*percent-encode/],
  [{ alertWebhook: 7 }, /"alertWebhook" is not as it has to be/],
  [{ alertWebhookSecret: 'hunter2' }, /"alertWebhookSecret" is not a valid secret.*openssl/],
  [{ alertWebhookSecret: ['hunter2!hunter2!hunter2!'] }, /"alertWebhookSecret" is not a valid secret/],
  [{ alertWebhookSecret: [] }, /"alertWebhookSecret" is not as it has to be/],
  [{ alertRoutingKey: 'hunter2' }, /"alertRoutingKey" is not as it has to be/],
  [{ smtpUrl: 'hunter2@mail.example.com' }, /"smtpUrl" is not a valid URL of a mail server: give one such as smtps:/],
  [{ smtpUrl: 'https://user:hunter2@mail.example.com' }, /"smtpUrl" is not a valid URL of a mail server/],
  [{ smtpUrl: 'smtp://user:hunter2%@mail.example.com' }, /percent-encode/],
  [{ smtpUrl: 'smtp://user:p@hunter2#x@mail.example.com' }, /percent-encode/],
  [{ smtpUrl: 'smtp://user:12/hunter2@mail.example.com' }, /percent-encode/],
  [{ alertWebhook: 'https://user:p@hunter2/x@example.com' }, /percent-encode/],
  [{ mailer: 'smtps://mail.example.com/?user=a&pass=hunter2' }, /"mailer" is not as it has to be: give a transport/],
] as const) {
  test(`${JSON.stringify(options).replaceAll('hunter2', '***')} is refused, and not shown`, () => {
    assert.throws(
      () => resolveSettings(options as object, {}),
      ({ message }: Error) => complaint.test(message) && !message.includes('hunter2'),
    )
  })
}

test('a webhook may have an @ in its path, where no name precedes its host', () => {
  const alertWebhook = 'https://example.com/@ops?to=a@b'
  assert.equal(resolveSettings({ alertWebhook }, {}).alerts.alertWebhook, alertWebhook)
})

test('all of them come from the environment, and a wrong one is called by its variable', () => {
  const environment = {
    RATELIMIT_ALERT_THRESHOLD: '5',
    RATELIMIT_ALERT_EMAILS: 'a@example.com, b@example.com,',
    RATELIMIT_ALERT_WEBHOOK: 'https://example.com/hook',
    RATELIMIT_ALERT_WEBHOOK_SECRET: `${SECRET},${SECRET.slice('whsec_'.length)}`,
    RATELIMIT_ALERT_WEBHOOK_FORMAT: 'pagerduty',
    RATELIMIT_ALERT_ROUTING_KEY: 'R0123456789abcdef0123456789abcde',
    RATELIMIT_ALERT_COOLDOWN: '3600',
    RATELIMIT_ALERT_RESOLVED: 'true',
    RATELIMIT_BLOCK_PRIVATE_NETWORKS: 'yes',
    RATELIMIT_PUBLIC_URL: 'https://example.com/ops/(1)/dashboard',
    DEFAULT_FROM_EMAIL: 'Rate limits <alerts@example.com>',
    SMTP_URL: 'smtps://user:p%40ss@mail.example.com',
  }
  const { alerts } = resolveSettings({}, environment)
  const expected = {
    alertThreshold: 5,
    alertEmails: ['a@example.com', 'b@example.com'],
    alertWebhook: 'https://example.com/hook',
    alertWebhookSecret: [Buffer.alloc(32, 7), Buffer.alloc(32, 7)],
    alertWebhookFormat: 'pagerduty',
    alertRoutingKey: 'R0123456789abcdef0123456789abcde',
    alertCooldown: 3_600,
    alertResolved: true,
    publicUrl: 'https://example.com/ops/%281%29/dashboard/',
    defaultFromEmail: 'Rate limits <alerts@example.com>',
    smtpUrl: 'smtps://user:p%40ss@mail.example.com',
    blockPrivateNetworks: true,
  }
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(Reflect.get(alerts, name), value, name)
  for (const [variable, value] of [
    ['RATELIMIT_ALERT_EMAILS', 'ops'],
    ['RATELIMIT_ALERT_WEBHOOK', 'nowhere'],
    ['RATELIMIT_ALERT_COOLDOWN', 'long'],
    ['SMTP_URL', 'mail.example.com'],
  ] as const) {
    assert.throws(() => resolveSettings({}, { [variable]: value }), new RegExp(`Setting "${variable}"`))
  }
})

test('an option goes before its variable', () => {
  const { alerts } = resolveSettings({ alertEmails: ['a@example.com'] }, { RATELIMIT_ALERT_EMAILS: 'b@example.com' })
  assert.deepEqual(alerts.alertEmails, ['a@example.com'])
})

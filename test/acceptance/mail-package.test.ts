/** nodemailer is an optional peer: it is asked for where a mail server is set, and nowhere else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runApps } from '../support/optional-peers.js'

const MEMORY = { middleware: { backend: 'memory' } }
const ALERTS = { ...MEMORY, alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com' }
const MAIL = { ...ALERTS, smtpUrl: 'smtp://mail.example.com' }

test('without nodemailer a mail server is refused at start with the remedy, and everything else works', async (t) => {
  const withoutRecipients = { ...MEMORY, smtpUrl: 'smtp://mail.example.com' }
  const { stdout } = await runApps(
    t,
    [MEMORY, withoutRecipients, ALERTS, { ...MAIL, enabled: false }, MAIL],
    'nodemailer',
  )

  assert.match(
    stdout,
    /^(?:remaining 99\n){3}remaining undefined\nFST_RATE_LIMIT_INVALID_SETTING Setting "smtpUrl" needs the package nodemailer, 7\.0\.11 or later: run "npm install nodemailer"/,
  )
})

test('with nodemailer a start asks no mail server', async (t) => {
  const { stdout } = await runApps(t, [MAIL])
  assert.equal(stdout, 'remaining 99\n')
})

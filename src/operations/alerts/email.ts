import { readFile } from 'node:fs/promises'
import { countOf } from '../../ground/number-text.js'
import { packagePath } from '../../ground/package-root.js'
import { type AlertChannel, type AlertTimes, type Delivery, inTime } from './channel.js'
import type { FactsMessage } from './facts-message.js'
import { MAIL_ADDRESS, type Mailer, type MailMessage, mailErrorLine, withMailer } from './mailer.js'
import { type AlertMessage, listedKeys, listOffenders, toSentence, toTitle } from './message.js'

interface EmailOptions {
  readonly to: readonly string[]
  /** `ops@example.com`, or with a name, `Rate limits <ops@example.com>`. */
  readonly from: string | undefined
  readonly smtpUrl: string | undefined
  /** Takes precedence over the URL; it stays open. */
  readonly mailer: Mailer | undefined
}

/** Creates the channel that sends mails. Recipients do not see each other. */
export function createEmailChannel(options: EmailOptions, { emailTimeoutMs }: AlertTimes): AlertChannel {
  async function send(message: AlertMessage | FactsMessage): Promise<Delivery> {
    const problem = findEmailProblem(options)
    if (problem !== undefined) return { delivered: false, error: problem }
    try {
      const mail = await createMail(options, message)
      const sent = await withMailer(options, emailTimeoutMs, (mailer) =>
        inTime(mailer.sendMail(mail), emailTimeoutMs, 'the mail server'),
      )
      return toDelivery(sent, options.to)
    } catch (error) {
      return { delivered: false, error: mailErrorLine(error) }
    }
  }
  return { name: 'email', target: [...options.to].sort().join(','), send }
}

/** Returns what is missing or invalid, without asking a server; undefined when mail can be sent. */
export function findEmailProblem({ to, from, smtpUrl, mailer }: EmailOptions): string | undefined {
  if (to.length === 0) return 'no recipient: give addresses such as ops@example.com'
  const wrong = to.find((address) => !MAIL_ADDRESS.test(address))
  if (wrong !== undefined)
    return `${JSON.stringify(wrong)} is not a valid mail address: give one such as ops@example.com`
  if (mailer === undefined && smtpUrl === undefined) {
    return 'no mail server: set SMTP_URL, such as smtps://user:password@mail.example.com'
  }
  if (from === undefined) return 'no sender: set DEFAULT_FROM_EMAIL, such as alerts@example.com'
  return undefined
}

async function createMail({ to, from = '' }: EmailOptions, message: AlertMessage | FactsMessage): Promise<MailMessage> {
  const [first = '', ...others] = to
  return {
    ...(await renderEmail(message)),
    from,
    to: others.length === 0 ? first : 'undisclosed-recipients:;',
    envelope: { from, to: [...to] },
    headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

/** Reads a server's answer, which may accept a mail for some of the recipients only. */
function toDelivery(sent: unknown, to: readonly string[]): Delivery {
  const rejected = typeof sent === 'object' && sent !== null && 'rejected' in sent ? sent.rejected : undefined
  if (!Array.isArray(rejected) || rejected.length === 0) return { delivered: true }
  return {
    delivered: rejected.length < to.length,
    error: `the mail server refused ${rejected.length} of ${countOf(to.length, 'recipient')}`,
  }
}

/** The most offenders that one mail lists; the report has the others. */
const MAX_LINES = 100

interface EmailText {
  readonly subject: string
  readonly text: string
  readonly html: string
}

type Render = (context: object) => string

/** A mail in text and in HTML, as its template. */
interface Template {
  readonly text: Render
  readonly html: Render
}

const readAlert = readOnce('alert')
const readFacts = readOnce('alert-facts')

/** Renders a message as a mail. */
async function renderEmail(message: AlertMessage | FactsMessage): Promise<EmailText> {
  const isFacts = 'facts' in message
  const { text, html } = await (isFacts ? readFacts : readAlert)()
  const title = isFacts ? message.title : toTitle(message)
  const context = isFacts ? message : offendersContext(message, title)
  return { subject: `[fastify-smart-ratelimit] ${title}`, text: text(context), html: html(context) }
}

function offendersContext(message: AlertMessage, title: string) {
  const offenders = listOffenders(message, MAX_LINES)
  const resolved = listedKeys(message.resolved, MAX_LINES)
  return {
    title,
    sentence: toSentence(message),
    refusals: countOf(message.threshold, 'refused request'),
    days: countOf(message.days, 'day'),
    offenders: offenders.lines,
    more: offenders.more,
    resolved: resolved.lines,
    more_resolved: resolved.more,
  }
}

/** Returns a function that reads a template with its first call, and again after a failure. */
function readOnce(name: string): () => Promise<Template> {
  let template: Promise<Template> | undefined
  return () => {
    template ??= readTemplate(name).catch((error: unknown) => {
      template = undefined
      throw error
    })
    return template
  }
}

async function readTemplate(name: string): Promise<Template> {
  const { Handlebars } = await import('../../generated/handlebars.js')
  // A separate instance, so that the helpers of a host do not affect the mails.
  const handlebars = Handlebars.create()
  const read = (format: string) => readFile(packagePath('templates', `${name}.${format}.hbs`), 'utf8')
  const [text, html] = await Promise.all([read('txt'), read('html')])
  return { text: handlebars.compile(text, { noEscape: true }), html: handlebars.compile(html) }
}

import { readFile } from 'node:fs/promises'
import { countOf } from '../../../ground/number-text.js'
import { packagePath } from '../../../ground/package-root.js'
import { madeOnce } from '../../../ground/remember.js'
import { type Delivery, inTime } from './channel.js'
import { type EmailSettings, findEmailProblem, type MailMessage, mailErrorLine, withMailer } from './mailer.js'
import type { Message } from './message.js'

/** The time-out is shorter than that of a probe of health, so that the error names the mail server's failure. */
const PROBE_TIMEOUT_MS = 2_500

/** Sends a mail. Recipients do not see each other. */
export async function sendMail(settings: EmailSettings, message: Message, timeoutMs: number): Promise<Delivery> {
  const problem = findEmailProblem(settings)
  if (problem !== undefined) return { delivered: false, error: problem }
  try {
    const mail = await createMail(settings, message)
    const sent = await withMailer(settings, timeoutMs, (mailer) =>
      inTime(mailer.sendMail(mail), timeoutMs, 'the mail server'),
    )
    return toDelivery(sent, settings.alertEmails)
  } catch (error) {
    return { delivered: false, error: mailErrorLine(error) }
  }
}

/**
 * Asks the mail server whether it accepts a connection, the name and the password.
 *
 * @throws an error that says why no mail could be sent
 */
export async function probeMail(settings: EmailSettings): Promise<string> {
  const problem = findEmailProblem(settings)
  if (problem !== undefined) throw new Error(problem)
  try {
    await withMailer(settings, PROBE_TIMEOUT_MS, async (opened) => opened.verify?.())
  } catch (error) {
    throw new Error(mailErrorLine(error))
  }
  return 'the mail server accepts a sign-in'
}

async function createMail(
  { alertEmails: to, defaultFromEmail: from = '' }: EmailSettings,
  message: Message,
): Promise<MailMessage> {
  const [first = '', ...others] = to
  const { text, html } = await readTemplates()
  return {
    subject: `[fastify-smart-ratelimit] ${message.title}`,
    text: text(message),
    html: html(message),
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

/** Reads the templates of mails in text and in HTML. */
const readTemplates = madeOnce(async () => {
  const { Handlebars } = await import('../../../generated/handlebars.js')
  // A separate instance, so that the helpers of a host do not affect the mails.
  const handlebars = Handlebars.create()
  const read = (format: string) => readFile(packagePath('templates', `alert.${format}.hbs`), 'utf8')
  const [text, html] = await Promise.all([read('txt'), read('html')])
  return { text: handlebars.compile(text, { noEscape: true }), html: handlebars.compile(html) }
})

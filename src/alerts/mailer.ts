/** Opens the mail server. nodemailer is loaded here alone, and only when a mail server is needed. */
import { lineOf } from '../errors.js'
import { visible } from '../visible.js'

const MAX_ERROR_LENGTH = 300

/** What is needed of a mail transport; one that nodemailer made has all of it. */
export interface Mailer {
  sendMail(message: MailMessage): Promise<unknown>
  verify?(): Promise<unknown>
  close?(): void
}

export interface MailMessage {
  from: string
  to: string
  envelope: { from: string; to: string[] }
  subject: string
  text: string
  html: string
  /** What answers and other robots look at, so that they leave the mail alone. */
  headers: Record<string, string>
  /** No file and no address that a template names is read. */
  disableFileAccess: true
  disableUrlAccess: true
}

/** Lends the given transport, or one of our own that is closed afterwards. */
export async function withMailer<T>(
  { mailer, smtpUrl = '' }: { readonly mailer: Mailer | undefined; readonly smtpUrl: string | undefined },
  timeoutMs: number,
  work: (mailer: Mailer) => Promise<T>,
): Promise<T> {
  if (mailer !== undefined) return work(mailer)
  const opened = await openMailer(smtpUrl, timeoutMs)
  try {
    return await work(opened)
  } finally {
    opened.close?.()
  }
}

async function openMailer(smtpUrl: string, timeoutMs: number): Promise<Mailer> {
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    url: smtpUrl,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
  })
  return {
    sendMail: (message) => transport.sendMail(message),
    verify: () => transport.verify(),
    close: () => transport.close(),
  }
}

/** Why a mail was not sent, in one line: servers answer with as many as they like. */
export function mailErrorOf(error: unknown): string {
  return visible(lineOf(error)).slice(0, MAX_ERROR_LENGTH)
}

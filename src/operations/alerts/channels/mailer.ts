/** Connects to the mail server. Only this module loads nodemailer, an optional peer, and only where a mail server is set. */
import { errorLine, unloadablePeer } from '../../../ground/errors.js'
import { visible } from '../../../ground/visible.js'

const MAX_ERROR_LENGTH = 300

/** The methods that a mail transport needs; those of nodemailer have them all. */
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
  /** The headers that keep auto-responders from answering. */
  headers: Record<string, string>
  /** Keeps nodemailer from reading files and URLs that a template names. */
  disableFileAccess: true
  disableUrlAccess: true
}

/** The settings of mails. */
export interface EmailSettings {
  readonly alertEmails: readonly string[]
  /** `ops@example.com`, or with a name, `Rate limits <ops@example.com>`. */
  readonly defaultFromEmail: string | undefined
  readonly smtpUrl: string | undefined
  /** Takes precedence over the URL; it stays open. */
  readonly mailer: Mailer | undefined
}

/** Returns what is missing or invalid, without asking a server; undefined when mail can be sent. */
export function findEmailProblem({
  alertEmails,
  defaultFromEmail,
  smtpUrl,
  mailer,
}: EmailSettings): string | undefined {
  if (alertEmails.length === 0) return 'no recipient: give addresses such as ops@example.com'
  const wrong = alertEmails.find((address) => !MAIL_ADDRESS.test(address))
  if (wrong !== undefined)
    return `${JSON.stringify(wrong)} is not a valid mail address: give one such as ops@example.com`
  if (mailer === undefined && smtpUrl === undefined) {
    return 'no mail server: set SMTP_URL, such as smtps://user:password@mail.example.com'
  }
  if (defaultFromEmail === undefined) return 'no sender: set DEFAULT_FROM_EMAIL, such as alerts@example.com'
  return undefined
}

/** Runs `work` with the given transport, or with a new one that is closed afterwards. */
export async function withMailer<T>(
  { mailer, smtpUrl = '' }: Pick<EmailSettings, 'mailer' | 'smtpUrl'>,
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

/** @throws InvalidSettingError when what connects to the mail server is not installed */
export async function requireNodemailer(): Promise<void> {
  await importNodemailer()
}

/** The declarations of the package name no types of an optional peer. */
async function importNodemailer() {
  return import('nodemailer').catch((error: unknown) => {
    throw unloadablePeer({ user: 'Setting "smtpUrl"', name: 'nodemailer', since: '7.0.11' }, error)
  })
}

async function openMailer(smtpUrl: string, timeoutMs: number): Promise<Mailer> {
  const { createTransport } = await importNodemailer()
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

/** Returns why a mail was not sent, in one line: servers may answer with several. */
export function mailErrorLine(error: unknown): string {
  return visible(errorLine(error)).slice(0, MAX_ERROR_LENGTH)
}

/** Matches one address and nothing else: no second one after a comma, no header after a line break. */
export const MAIL_ADDRESS = /^[^\s@,;:<>()[\]"\\\p{Cc}]{1,64}@[^\s@,;:<>()[\]"\\\p{Cc}]{1,255}$/u

/** Matches an address, or one with a name: `Rate limits <alerts@example.com>`. */
const SENDER = /^(?:[^<>\p{Cc}]{1,100}<(?<named>[^<>]+)>|(?<bare>[^<>]+))$/u

export function isSender(text: string): boolean {
  const { named, bare } = SENDER.exec(text.trim())?.groups ?? {}
  return MAIL_ADDRESS.test(named ?? bare ?? '')
}

/** A real mail server on a port of this machine. */
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { SMTPServer } from 'smtp-server'
import { atEnd } from './at-end.js'

export interface ReceivedMail {
  readonly from: string
  readonly to: readonly string[]
  /** Headers and body, as they came. */
  readonly raw: string
}

export interface MailServer {
  readonly url: string
  readonly mails: readonly ReceivedMail[]
}

export interface MailServerOptions {
  /** Recipients that are refused. */
  readonly refuses?: readonly string[]
  /** The account that has to sign in; none unless given. */
  readonly account?: { readonly user: string; readonly password: string }
  /** Takes connections, and says nothing. */
  readonly isSilent?: boolean
}

export async function startMailServer(
  t: TestContext,
  { refuses = [], account, isSilent = false }: MailServerOptions = {},
): Promise<MailServer> {
  const mails: ReceivedMail[] = []
  const server = new SMTPServer({
    disabledCommands: account === undefined ? ['STARTTLS', 'AUTH'] : ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, done) => {
      if (username === account?.user && password === account?.password) done(null, { user: username })
      else done(new Error('authentication failed'))
    },
    closeTimeout: 1,
    onConnect: (_session, done) => {
      if (!isSilent) done()
    },
    onRcptTo: ({ address }, _session, done) => {
      done(refuses.includes(address) ? new Error('no such mailbox') : undefined)
    },
    onData: (stream, { envelope }, done) => {
      void text(stream).then((raw) => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address
        mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), raw })
        done()
      })
    },
  })
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => new Promise<void>((resolve) => server.close(resolve)))
  const { port } = server.server.address() as AddressInfo
  return { url: `smtp://127.0.0.1:${port}`, mails }
}

/** The first part of that type, decoded. */
export function partOf(raw: string, type: string): string {
  const part = raw.split(/\r\n--[^\r\n]+/).find((candidate) => candidate.includes(`Content-Type: ${type}`)) ?? ''
  const body = part.slice(part.indexOf('\r\n\r\n') + 4)
  if (/^Content-Transfer-Encoding: base64/im.test(part)) return Buffer.from(body, 'base64').toString('utf8')
  if (!/^Content-Transfer-Encoding: quoted-printable/im.test(part)) return body
  const bytes = body
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

export function headerOf(raw: string, name: string): string | undefined {
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ')
  return new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]
}

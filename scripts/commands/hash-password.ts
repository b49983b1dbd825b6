import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { hashPassword } from '../../src/staff/sign-in/passwords.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'

export async function run(context: CommandContext): Promise<CommandResult> {
  const passwordHash = await hashPassword(await readPassword(context))
  return { json: { hash: passwordHash }, lines: [passwordHash] }
}

/**
 * Reads a password: from a pipe everything except the last line break, on a terminal twice and without an echo.
 *
 * @throws UsageError when there is none, when it has several lines, or when the two differ
 */
export async function readPassword(context: CommandContext): Promise<string> {
  const { stdin } = context
  const password = stdin.isTTY ? await askTwice(context) : (await text(stdin)).replace(/\r?\n$/, '')
  if (password === '') throw new UsageError('no password on standard input: type or pipe one')
  if (/[\r\n]/.test(password)) throw new UsageError('the password has more than one line: pipe one line')
  return password
}

async function askTwice(context: CommandContext): Promise<string> {
  const password = await ask('Password: ', context)
  if (password !== (await ask('Once more: ', context))) throw new UsageError('the two passwords differ: start again')
  return password
}

/** Asks on stderr, so that stdout has only the hash. */
async function ask(question: string, { stdin, stderr }: CommandContext): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input: stdin, output: silent, terminal: true })
  const cancelled = new AbortController()
  terminal.once('SIGINT', () => cancelled.abort()).once('close', () => cancelled.abort())
  stderr.write(question)
  try {
    return await terminal.question('', { signal: cancelled.signal })
  } catch (error) {
    throw cancelled.signal.aborted ? new Error('cancelled') : error
  } finally {
    terminal.close()
    stderr.write('\n')
  }
}

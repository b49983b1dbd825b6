import { once } from 'node:events'
import { startDemo } from '../example/demo-app.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { printLine } from './support/terminal.js'

export async function run(
  { port }: { readonly port: number },
  { signal, stdout }: CommandContext,
): Promise<CommandResult> {
  const print = (line: string) => printLine(line, stdout)
  const app = await startDemo({ listen: { port, host: '127.0.0.1', setting: '--port' }, print })
  if (!signal.aborted) await once(signal, 'abort')
  await app.close()
  return { lines: [] }
}

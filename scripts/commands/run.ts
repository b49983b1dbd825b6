import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { errorLine } from '../../src/ground/errors.js'
import { createProgram, type Perform } from './program.js'
import { type CommandContext, UsageError } from './support/command.js'
import { CommanderError } from './support/commander.js'
import { printLine, warnLine } from './support/terminal.js'

/** Runs `ratelimit <args…>` and returns the exit status: 0 done, 1 something failed, 2 wrong usage. */
export async function ratelimit(args: readonly string[], context: CommandContext): Promise<number> {
  const { stdout, stderr, env } = context
  let status = 0

  const perform: Perform = async (command, module, ...args) => {
    try {
      const { run } = await module
      const { json, lines, warnings = [], failures = [] } = await run(...args, context)
      const printed = command.opts().json && json !== undefined ? [JSON.stringify(json)] : lines
      for (const line of printed) printLine(line, stdout)
      for (const line of [...warnings, ...failures]) warnLine(`${fullName(command)}: ${line}`, stderr)
      if (failures.length > 0) status = 1
    } catch (error) {
      if (error instanceof UsageError) return wrongUsage(command, error.message)
      status = 1
      warnLine(`${fullName(command)}: ${errorLine(error)}`, stderr)
      if (env.DEBUG && error instanceof Error) for (const line of error.stack?.split('\n') ?? []) warnLine(line, stderr)
    }
  }

  function wrongUsage(command: CommandUnknownOpts, message: string): void {
    status = 2
    const name = fullName(command)
    warnLine(`${name}: ${message} (see ${name} --help)`, stderr)
  }

  const program = createProgram(perform)
  for (const command of withSubcommands(program)) {
    command.configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
      // The error is one line, so that the log of a scheduler shows it completely.
      outputError: (text) => wrongUsage(command, errorLine(text).replace(/^error: /, '')),
    })
    command.exitOverride()
  }
  try {
    await program.parseAsync(args, { from: 'user' })
    return status
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    throw error
  }
}

function withSubcommands(command: CommandUnknownOpts): CommandUnknownOpts[] {
  return [command, ...command.commands.flatMap(withSubcommands)]
}

/** Returns the full name of a command, such as `ratelimit override add`. */
function fullName(command: CommandUnknownOpts): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`
}

#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../src/package-root.js'
import { COMMANDS } from './commands/index.js'
import { overviewLines } from './commands/support/help.js'
import { didYouMean } from './commands/support/suggest.js'
import { describeError, printLine, warnLine } from './commands/support/terminal.js'
import { UsageError } from './commands/support/usage-error.js'

/** Runs `ratelimit <name> <args…>` and answers the exit status: 0 done, 1 something failed, 2 wrong usage. */
async function dispatch(name: string | undefined, args: readonly string[]): Promise<number> {
  try {
    if (name === undefined) throw new UsageError('no command given')
    if (name === '--help' || name === '-h') return printOverview()
    if (name === '--version') return printVersion()
    const command = COMMANDS.find((candidate) => candidate.name === name)
    if (command === undefined) throw unknownCommand(name)
    return await command.execute(args)
  } catch (error) {
    return reportFailure(name, error)
  }
}

function printOverview(): number {
  for (const line of overviewLines(COMMANDS)) printLine(line)
  return 0
}

function printVersion(): number {
  const { version } = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
  printLine(String(version))
  return 0
}

function unknownCommand(name: string): UsageError {
  const kind = name.startsWith('-') ? 'option' : 'command'
  const known = [...COMMANDS.map((command) => command.name), '--help', '--version']
  return new UsageError(`unknown ${kind} ${JSON.stringify(name)}${didYouMean(name, known)}`)
}

function reportFailure(name: string | undefined, error: unknown): number {
  const known = COMMANDS.some((command) => command.name === name)
  const program = known ? `ratelimit ${name}` : 'ratelimit'
  if (error instanceof UsageError) {
    warnLine(`${program}: ${error.message} (see ${program} --help)`)
    return 2
  }
  warnLine(`${program}: ${describeError(error)}`)
  if (process.env.DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`)
  return 1
}

const [name, ...args] = process.argv.slice(2)
process.exitCode = await dispatch(name, args)

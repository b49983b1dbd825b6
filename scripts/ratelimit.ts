#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { lineOf } from '../src/errors.js'
import { PACKAGE_ROOT } from '../src/package-root.js'
import { COMMANDS } from './commands/index.js'
import type { Command } from './commands/support/command.js'
import { overviewLines } from './commands/support/help.js'
import { didYouMean } from './commands/support/suggest.js'
import { printLine, warnLine } from './commands/support/terminal.js'
import { UsageError } from './commands/support/usage-error.js'

/** Connections that still close when all is done have so long for it. */
const LINGERING_MS = 2_000

/** Runs `ratelimit <words…>` and answers the exit status: 0 done, 1 something failed, 2 wrong usage. */
async function dispatch(words: readonly string[]): Promise<number> {
  const [name, second] = words
  const command = COMMANDS.find((candidate) => candidate.name === name || candidate.name === `${name} ${second}`)
  try {
    if (name === undefined) throw new UsageError('no command given')
    if (name === '--version') return printVersion()
    if (command !== undefined) return await command.execute(words.slice(command.name.split(' ').length))
    // "override" of "override add", where another word follows or none.
    const family = COMMANDS.filter((candidate) => candidate.name.startsWith(`${name} `))
    const isFamily = family.length > 0
    if (isHelp(name) || (isFamily && isHelp(second))) return printOverview(isFamily ? family : COMMANDS)
    throw isFamily ? incompleteCommand(name, second, family) : unknownCommand(name)
  } catch (error) {
    return reportFailure(command, error)
  }
}

function isHelp(word: string | undefined): boolean {
  return word === '--help' || word === '-h'
}

function printOverview(commands: readonly Command[]): number {
  for (const line of overviewLines(commands)) printLine(line)
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

function incompleteCommand(name: string, second: string | undefined, family: readonly Command[]): UsageError {
  const known = family.map((command) => command.name)
  const given = second === undefined ? name : `${name} ${second}`
  return new UsageError(
    `unknown command ${JSON.stringify(given)}${didYouMean(given, known) || `: give ${known.join(' or ')}`}`,
  )
}

function reportFailure(command: Command | undefined, error: unknown): number {
  const program = command === undefined ? 'ratelimit' : `ratelimit ${command.name}`
  if (error instanceof UsageError) {
    warnLine(`${program}: ${error.message} (see ${program} --help)`)
    return 2
  }
  warnLine(`${program}: ${lineOf(error)}`)
  if (process.env.DEBUG && error instanceof Error) for (const line of error.stack?.split('\n') ?? []) warnLine(line)
  return 1
}

// Whoever reads has read enough, as `head` does: not a failure, and no reason to leave anything undone.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Every line fails where one does, as on a full disk.
  if (error.code === 'EPIPE' || process.exitCode === 1) return
  process.exitCode = 1
  warnLine(`ratelimit: what was found or done could not be printed: ${lineOf(error)}`)
})
// Nobody hears a warning then; the work is done all the same.
process.stderr.on('error', () => undefined)

const status = await dispatch(process.argv.slice(2))
process.exitCode ??= status

// A server that was given up and goes on sending must not keep a scheduled command from ending.
setTimeout(() => {
  if (process.stdout.writableLength === 0) process.exit()
}, LINGERING_MS).unref()

/** Defines commands with what all of them share: settings, help and exit statuses. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { MAX_BATCH_SIZE } from '../../../src/database/batches.js'
import { environmentHelp, variableFor } from '../../../src/plugin/settings/environment.js'
import type { RateLimitOptions } from '../../../src/plugin/settings/options.js'
import { HOW_TO } from '../../../src/staff/dashboard/time-range.js'
import { Option } from './commander.js'
import { integer } from './option-values.js'

interface Description {
  /** The line in the list of commands. */
  readonly summary: string
  /** The paragraphs of the help, for readers who have not run it yet. */
  readonly about: readonly string[]
  readonly example: string
  readonly settings?: readonly (keyof RateLimitOptions)[]
}

/** Creates a command with the settings that all commands share. */
export function define(
  parent: CommandUnknownOpts,
  name: string,
  { summary, about, example, settings = [] }: Description,
) {
  return parent
    .command(name)
    .summary(summary)
    .description([`${summary}.`, ...about].join('\n\n'))
    .option('--json', 'print one JSON object instead of text')
    .addHelpText('after', ({ command }) => {
      const help = command.createHelp()
      help.prepareContext({ helpWidth: command.configureOutput().getOutHelpWidth?.() ?? 80 })
      const rows = environmentHelp(settings)
      const width = Math.max(...rows.map(([variable]) => variable.length))
      const items = rows.map(([variable, meaning]) => help.formatItem(variable, width, meaning, help))
      return [
        '',
        ...help.formatItemList('Environment (also read from .env in the working directory):', items, help),
        `Example:\n  ${example}\n`,
        'Exit status: 0 done, 1 something failed, 2 wrong usage.',
        'DEBUG=1 adds the stack trace of a failure.',
      ].join('\n')
    })
}

/** Creates a command that works on the database. */
export function defineOnDatabase(parent: CommandUnknownOpts, name: string, description: Description) {
  const settings = ['database', 'events', 'schema', ...(description.settings ?? [])] as const
  return define(parent, name, { ...description, settings }).option(
    '--schema <name>',
    `PostgreSQL schema of the tables (default: ${variableFor('schema')})`,
  )
}

/** Creates the option of the beginning of a range, which replaces the window of another option. */
export function since(conflicting: readonly string[]) {
  return new Option('--since <time>', `beginning of a range instead, in UTC: ${HOW_TO}`).conflicts([...conflicting])
}

/** Creates the option of the end of a range. */
export function until(conflicting: readonly string[]) {
  return new Option('--until <time>', 'end of the range (default: now)').conflicts([...conflicting])
}

/** Creates the option of commands that delete. */
export function batchSize() {
  return new Option('--batch-size <int>', 'rows that one statement deletes')
    .argParser(integer('rows', 1, MAX_BATCH_SIZE))
    .default(1000)
}

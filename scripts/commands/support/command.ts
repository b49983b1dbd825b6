import { loadEnvironmentFile } from './environment.js'
import { helpLines } from './help.js'
import { type Options, type OptionValues, parseOptions } from './options.js'
import { printLine, warnLine } from './terminal.js'

/** What a command found or did; printing it is not its business. */
export interface CommandResult {
  /** Printed with `--json`. */
  readonly json: object
  /** Printed without it. */
  readonly lines: readonly string[]
  /** What did not work although the rest was done, a line each: exit status 1. */
  readonly failures?: readonly string[]
}

export interface CommandDefinition<Given extends Options = Options> {
  readonly name: string
  /** One line, for the list of commands. */
  readonly summary: string
  /** What one has to know before running it, a paragraph each. */
  readonly description: readonly string[]
  readonly options: Given
  /** The environment variables it reads, and what they say. */
  readonly environment: Readonly<Record<string, string>>
  readonly example: string
  /** Does the work. A throw is exit status 1, a `UsageError` 2. */
  run(values: OptionValues<Given>): Promise<CommandResult>
}

export interface Command {
  readonly name: string
  readonly summary: string
  /** Line by line. */
  readonly help: readonly string[]
  /** Runs it with the arguments that follow its name, prints, and answers the exit status. */
  execute(args: readonly string[]): Promise<number>
}

/** Makes a command of what it takes and what it does: help, `--json` and exit status are alike in all of them. */
export function defineCommand<Given extends Options>(definition: CommandDefinition<Given>): Command {
  const help = helpLines(definition)

  async function execute(args: readonly string[]): Promise<number> {
    const { values, json, help: asksForHelp } = parseOptions(definition.options, args)
    if (asksForHelp) {
      for (const line of help) printLine(line)
      return 0
    }
    loadEnvironmentFile()
    const result = await definition.run(values)
    for (const line of json ? [JSON.stringify(result.json)] : result.lines) printLine(line)
    const failures = result.failures ?? []
    for (const failure of failures) warnLine(`ratelimit ${definition.name}: ${failure}`)
    return failures.length === 0 ? 0 : 1
  }
  return { name: definition.name, summary: definition.summary, help, execute }
}

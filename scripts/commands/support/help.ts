import type { CommandDefinition } from './command.js'
import { partsOf, withCommonOptions } from './options.js'

/** The help of one command, line by line: enough by itself. */
export function helpLines({
  name,
  summary,
  description,
  options,
  environment,
  example,
}: Omit<CommandDefinition, 'run'>): string[] {
  const { options: named, operands } = partsOf(withCommonOptions(options))
  const operandRows = operands.map((operand) => [`<${operand}>`, options[operand]?.help ?? ''] as const)
  const optionRows = Object.entries(named).map(([option, spec]) => {
    if (spec.type === 'flag') return [`--${option}`, spec.help] as const
    const default_ = spec.default === undefined ? '' : ` (${spec.default})`
    return [`--${option} <${spec.type === 'integer' ? 'int' : 'text'}>`, `${spec.help}${default_}`] as const
  })
  return [
    ['Usage: ratelimit', name, '[options]', ...operandRows.map(([operand]) => operand)].join(' '),
    '',
    `${summary}.`,
    ...description.flatMap((paragraph) => ['', ...wrapped(paragraph)]),
    '',
    ...(operandRows.length === 0 ? [] : ['Arguments:', ...columns(operandRows), '']),
    'Options:',
    ...columns(optionRows),
    ...environmentLines(environment),
    '',
    'Example:',
    `  ${example}`,
    '',
    'Exit status: 0 done, 1 something failed, 2 wrong usage. DEBUG=1 adds the stack trace of a failure.',
  ]
}

/** The help of the dispatcher. */
export function overviewLines(commands: readonly { readonly name: string; readonly summary: string }[]): string[] {
  return [
    'Usage: ratelimit <command> [options]',
    '',
    'Commands:',
    ...columns(commands.map(({ name, summary }) => [name, summary] as const)),
    '',
    'Options:',
    ...columns([
      ['--help', 'show this help; after a command, that of the command (-h)'],
      ['--version', 'print the version'],
    ]),
    '',
    'Settings are read from the environment and from .env in the working directory; the environment wins.',
  ]
}

function environmentLines(environment: Readonly<Record<string, string>>): string[] {
  const rows = Object.entries(environment)
  if (rows.length === 0) return []
  return ['', 'Environment (also read from .env in the working directory):', ...columns(rows)]
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

/** Breaks a paragraph into lines of a terminal's width. */
function wrapped(paragraph: string): string[] {
  const lines: string[] = []
  for (const word of paragraph.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + word.length >= 80) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}

import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { createProgram } from '../commands/program.js'
import { page } from './markdown.js'

const COLUMNS = 100

/** Returns the help of a command as its users read it. */
function formatHelp(command: CommandUnknownOpts): string {
  let help = ''
  command.configureOutput({
    writeOut: (text) => {
      help += text
    },
    getOutHelpWidth: () => COLUMNS,
    getOutHasColors: () => false,
  })
  command.outputHelp()
  return help.trim()
}

function describe(command: CommandUnknownOpts, parents: string): string[] {
  const name = `${parents}${command.name()}`
  const depth = parents === '' ? '##' : '###'
  return [
    `${depth} ${name}`,
    `\`\`\`text\n${formatHelp(command)}\n\`\`\``,
    ...command.commands.flatMap((child) => describe(child, `${name} `)),
  ]
}

/** Describes every command by its help. */
export function commandsPage(): string {
  return page('Commands', 'the definitions of the commands', [
    'What `npx ratelimit help <command>` prints.',
    ...describe(
      createProgram(async () => undefined),
      '',
    ),
  ])
}

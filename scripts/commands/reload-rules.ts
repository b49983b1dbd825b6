import { bumpRevision } from '../../src/database/revision.js'
import { loadActiveRules } from '../../src/rules/rule-repository.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  return withExistingDatabase(commandSettings(options, context), context, async ({ database }) => {
    await bumpRevision(database, 'rules')
    const { rules, rejected } = await loadActiveRules(database)
    return {
      json: { active: rules.length, rejected },
      lines: [`Rate-limit rule cache reloaded (${rules.length} active rule(s)).`],
      warnings: rejected.map(({ name, reason }) => `rule "${name}" is left out: ${reason}`),
    }
  })
}

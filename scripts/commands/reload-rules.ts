import { bumpRevision } from '../../src/db/revision.js'
import { loadActiveRules } from '../../src/rules/rule-repository.js'
import { defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { warnLine } from './support/terminal.js'

export const reloadRules = defineCommand({
  name: 'reload-rules',
  summary: 'Read the rules afresh and count the active ones',
  description: [
    'Reads the rule table and checks every active rule. A rule that is not valid is named on stderr; servers leave it out.',
    'All servers of this database read their rules afresh within two seconds. They do so by themselves after every change of a rule, also one by SQL.',
  ],
  options: DATABASE_OPTIONS,
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit reload-rules',

  run: async ({ schema }) =>
    withExistingDatabase(commandSettings(schema), async ({ database }) => {
      await bumpRevision(database, 'rules')
      const { rules, rejected } = await loadActiveRules(database)
      for (const { name, reason } of rejected) warnLine(`ratelimit reload-rules: rule "${name}" is left out: ${reason}`)
      return {
        json: { active: rules.length, rejected: rejected.map(({ name, reason }) => ({ name, reason })) },
        lines: [`Rate-limit rule cache reloaded (${rules.length} active rule(s)).`],
      }
    }),
})

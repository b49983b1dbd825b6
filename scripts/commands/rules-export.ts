import { exportRules } from '../../src/rules/exchange.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'

export const rulesExport = defineCommand({
  name: 'rules export',
  summary: 'Print all rules and overrides as a JSON file',
  description: [
    'Prints all rules, active or not, and all overrides that have not expired, for rules import. The same rules make the same file, so that it can be kept under version control. Its JSON Schema is fastify-smart-ratelimit/rules.schema.json.',
    'With --json the document is one line.',
  ],
  options: DATABASE_OPTIONS,
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit rules export > rules.json',

  async run({ schema }) {
    const settings = commandSettings(schema)
    return withExistingDatabase(settings, async ({ database }): Promise<CommandResult> => {
      const document = await exportRules(database, settings.clock)
      return { json: document, lines: JSON.stringify(document, null, 2).split('\n') }
    })
  },
})

import { redactUrl } from '../../src/db/database.js'
import { type CommandResult, defineCommand } from './support/command.js'
import { commandSettings, DATABASE_ENVIRONMENT, DATABASE_OPTIONS, withDatabase } from './support/open-database.js'

export const migrate = defineCommand({
  name: 'migrate',
  summary: "Bring the database's tables to this version",
  description: [
    'Applies the migrations that the database lacks; run it before a new version of the server starts. Several at once do no harm, and where nothing is missing nothing happens. A SQLite file migrates itself when it is opened.',
    'On PostgreSQL everything lives in a schema of its own, which is created where there is none: the user of the URL needs the right to do that.',
  ],
  options: DATABASE_OPTIONS,
  environment: DATABASE_ENVIRONMENT,
  example: 'RATELIMIT_DATABASE_URL=postgresql://user@localhost/app ratelimit migrate',

  run: async ({ schema }) =>
    withDatabase(commandSettings(schema), async ({ database }): Promise<CommandResult> => {
      const applied = await database.migrate()
      const name = redactUrl(database.url)
      return {
        json: { database: name, applied },
        lines:
          applied.length === 0
            ? [`Nothing to do: ${name} is up to date.`]
            : [...applied.map((migration) => `Applied ${migration}`), `${name} is up to date.`],
      }
    }),
})

import { asActor } from '../../src/rules/actor.js'
import { normalOverride } from '../../src/rules/override.js'
import { type CommandResult, defineCommand } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { overrideClient } from './support/override-client.js'

export const overrideRemove = defineCommand({
  name: 'override remove',
  summary: 'Remove the override of a client',
  description: ['Removes one override: that for every path or, with --path, that with this very pattern.'],
  options: {
    client: { type: 'operand', help: 'the client, as override list shows it; also a bare address or network' },
    path: { type: 'text', help: 'the pattern of the override' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit override remove 203.0.113.7',

  async run({ client: given, path: pathPattern = '', schema }) {
    const settings = commandSettings(schema)
    const names = spellings(given)
    return withExistingDatabase(settings, async ({ client }): Promise<CommandResult> => {
      const { count } = await asActor(commandActor('override remove'), () =>
        client.rateLimitOverride.deleteMany({ where: { client: { in: names }, pathPattern } }),
      )
      if (count > 0) return { json: { removed: count }, lines: [`Removed ${count} override(s) of ${names.at(-1)}.`] }
      const others = await client.rateLimitOverride.findMany({
        where: { client: { in: names } },
        select: { pathPattern: true },
      })
      return { json: { removed: 0 }, lines: [], failures: [missing(names, pathPattern, others)] }
    })
  },
})

/** A row that raw SQL wrote may be spelled in any way, and has to be removable: so as it was typed, too. */
function spellings(given: string): string[] {
  const name = overrideClient(given)
  try {
    return [...new Set([given, name, normalOverride({ client: name }).client ?? name])]
  } catch {
    return [...new Set([given, name])]
  }
}

function missing(
  names: readonly string[],
  pathPattern: string,
  others: readonly { readonly pathPattern: string }[],
): string {
  const where = pathPattern === '' ? 'for every path' : `with the path ${JSON.stringify(pathPattern)}`
  const paths = others.map((other) =>
    other.pathPattern === '' ? 'without --path' : `with --path ${JSON.stringify(other.pathPattern)}`,
  )
  const remedy = paths.length === 0 ? 'see override list' : `give it ${paths.join(' or ')}`
  return `there is no override of ${names.at(-1)} ${where}: ${remedy}`
}

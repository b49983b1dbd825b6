import { asActor } from '../../src/history/actor.js'
import { clientText, parseOverrideClient } from '../../src/overrides/override.js'
import type { Settings } from '../../src/settings/resolve.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { overrideClient } from './support/override-client.js'

interface OverrideRemoveOptions extends DatabaseOptions {
  readonly path?: string | undefined
}

export async function run(
  given: string,
  options: OverrideRemoveOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const { path: pathPattern = '' } = options
  const settings = commandSettings(options, context)
  const names = spellings(given, settings)
  return withExistingDatabase(settings, context, async ({ client }) => {
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
}

/**
 * Returns the possible spellings of a client, including the typed one, since raw SQL may have written any, and the
 * pseudonym that bans have. The usual one is the last.
 */
function spellings(given: string, { privacy }: Settings): string[] {
  const name = overrideClient(given)
  const pseudonym = privacy === undefined ? [] : [privacy.toCounted(name)]
  try {
    return [...new Set([...pseudonym, given, name, clientText(parseOverrideClient(name))])]
  } catch {
    return [...new Set([...pseudonym, given, name])]
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

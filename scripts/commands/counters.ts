import { pluginParts } from '../../src/plugin/parts.js'
import { COUNTED_CLIENTS, readCountedClient } from '../../src/staff/shell/counted-client.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions } from './support/open-database.js'
import { withLimiter, withRules } from './support/open-limiter.js'

const OF_THE_APP =
  "Counters of limits in the app's own code are known only to the app: its dashboard and its API reset them."

/** Resets the counters of one client. */
export async function reset(typed: string, options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = withRules(commandSettings(options, context), context)
  const { middleware } = settings
  const client = readCountedClient(typed, settings)
  if (client === undefined) {
    throw new UsageError(`${JSON.stringify(typed)} is not a client whose counters can be found: ${COUNTED_CLIENTS}`)
  }
  if (middleware.backend === 'memory') {
    throw new Error('counters are in the memory of each server: the dashboard and the API of a server reset its own')
  }
  return withLimiter(settings, context, async (app) => {
    const { inForce, limiter } = pluginParts(app)
    await limiter.reset(await inForce.clientCounters(client))
    return {
      json: { client, notes: [OF_THE_APP] },
      lines: [`The counters of ${client} were reset. All servers obey within two seconds.`, OF_THE_APP],
    }
  })
}

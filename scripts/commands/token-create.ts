import { addToken, findTokenProblem } from '../../src/api/token-table.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { parseLength } from './support/length.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { untilText } from './support/token-lines.js'

interface TokenCreateOptions extends DatabaseOptions {
  readonly name: string
  readonly role: string
  readonly for?: string | undefined
}

export async function run(options: TokenCreateOptions, context: CommandContext): Promise<CommandResult> {
  const { name, role } = options
  const settings = commandSettings(options, context)
  const nowMs = settings.clock.now()
  const expiresAtMs = options.for === undefined ? null : nowMs + parseLength('--for', options.for)
  const invalid = findTokenProblem(name, role)
  if (invalid !== undefined) throw new UsageError(invalid)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const token = await addToken(database, { name, role, expiresAtMs }, nowMs)
    if (token === undefined) {
      return { lines: [], failures: [`there is a token ${JSON.stringify(name)} already: revoke it first`] }
    }
    const expires_at = expiresAtMs === null ? null : new Date(expiresAtMs).toISOString()
    return {
      json: { name, role, expires_at, token },
      // The token alone on stdout, so that a script can keep it.
      lines: [token],
      warnings: [`token ${JSON.stringify(name)}, ${role}, ${untilText(expiresAtMs)}. It is shown this once`],
    }
  })
}

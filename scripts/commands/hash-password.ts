import { hashPassword } from '../../src/sign-in/passwords.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { readPassword } from './support/read-password.js'

export async function run(context: CommandContext): Promise<CommandResult> {
  const passwordHash = await hashPassword(await readPassword(context))
  return { json: { hash: passwordHash }, lines: [passwordHash] }
}

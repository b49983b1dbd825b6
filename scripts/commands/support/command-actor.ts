import { userInfo } from 'node:os'

/** Returns the actor of a command's changes, for the history: the command, and the system user that runs it. */
export function commandActor(command: string): string {
  try {
    return `ratelimit ${command} (${userInfo().username})`
  } catch {
    // In a container the user may have no name.
    return `ratelimit ${command}`
  }
}

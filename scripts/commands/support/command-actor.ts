import { userInfo } from 'node:os'

/** Who changes something by a command, for its history: the command, and the user of the system that runs it. */
export function commandActor(command: string): string {
  try {
    return `ratelimit ${command} (${userInfo().username})`
  } catch {
    // In a container the user may have no name.
    return `ratelimit ${command}`
  }
}

import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { clientCondition } from './find-clients.js'
import { type ClientEvent, readRecentEvents } from './listed-events.js'
import { type Report, toLogged } from './report.js'

/** Enough for what a client asked for at most within a minute or an hour, and some milliseconds of work. */
const MAX_REQUESTS = 10_000

/** Reports the latest requests of a client or a network in the last day, the newest first; 10,000 at most. */
export function readClientRequests(client: string): Report<readonly ClientEvent[]> {
  return async (snapshot) => {
    const stored = storable(toLogged(snapshot, client), MAX_KEY_LENGTH)
    return readRecentEvents(snapshot, await clientCondition(snapshot, stored, { days: 1 }), MAX_REQUESTS)
  }
}

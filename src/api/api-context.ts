import type { SmartRateLimit } from '../app/smart-rate-limit.js'
import type { Internals } from '../internals.js'

/** What the routes work with. */
export interface ApiContext {
  readonly internals: Internals
  readonly limits: SmartRateLimit
  /** Runs a write that the history ascribes to the API, and to who sent the request. */
  write<T>(actor: string, work: () => PromiseLike<T>): Promise<T>
}

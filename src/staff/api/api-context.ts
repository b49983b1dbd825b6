import type { Internals } from '../../plugin/internals.js'
import type { SmartRateLimit } from '../../plugin/smart-rate-limit.js'

/** What the routes work with. */
export interface ApiContext {
  readonly internals: Internals
  readonly limits: SmartRateLimit
  /** Runs a write that the history ascribes to the API, and to who sent the request. */
  write<T>(actor: string, work: () => PromiseLike<T>): Promise<T>
}

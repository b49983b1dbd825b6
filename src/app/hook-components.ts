import type { FastifyInstance } from 'fastify'
import type { RefusalBans } from '../bans/refusal-bans.js'
import type { EventLog } from '../events/event-log.js'
import type { RequestAddresses } from '../http/client-address.js'
import type { ConditionReports } from '../http/conditions.js'
import type { CounterScopes } from '../http/counter-scopes.js'
import type { CountedResponses, HeldPlaces } from '../http/request-end.js'
import type { RouterOptions } from '../http/request-path.js'
import type { Limiter } from '../limiter/limiter.js'
import type { Metrics } from '../metrics/figures.js'
import type { Settings } from '../settings/resolve.js'
import type { CurrentSnapshot } from '../snapshot/current-snapshot.js'

/** The components that the hook uses. */
export interface HookComponents {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly router: RouterOptions
  readonly addresses: RequestAddresses
  readonly limiter: Limiter
  readonly responses: CountedResponses
  readonly places: HeldPlaces
  readonly current: CurrentSnapshot
  readonly events: EventLog
  readonly scopes: CounterScopes
  readonly metrics: Metrics | undefined
  readonly conditions: ConditionReports
  readonly bans: RefusalBans
}

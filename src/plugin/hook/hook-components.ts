import type { FastifyInstance } from 'fastify'
import type { ChargedUnits } from '../../http/charged-units.js'
import type { RequestAddresses } from '../../http/client-address.js'
import type { CodeCounters } from '../../http/code-counters.js'
import type { Notices } from '../../http/notices.js'
import type { RefusalBans } from '../../http/refusal-bans.js'
import type { CountedResponses, HeldPermits } from '../../http/request-end.js'
import type { RouterOptions } from '../../http/request-path.js'
import type { ConditionReports } from '../../http/rule-choice.js'
import type { Limiter } from '../../limiter/limiter.js'
import type { Store } from '../../limiter/stores/store.js'
import type { EventLog } from '../../log/event-log.js'
import type { Metrics } from '../../operations/metrics/figures.js'
import type { CurrentSnapshot } from '../../rules/snapshot/current-snapshot.js'
import type { Settings } from '../settings/resolve.js'

/** The components that the hook uses. */
export interface HookComponents {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly router: RouterOptions
  readonly addresses: RequestAddresses
  readonly store: Store
  readonly limiter: Limiter
  readonly responses: CountedResponses
  readonly permits: HeldPermits
  readonly units: ChargedUnits
  readonly notices: Notices
  readonly current: CurrentSnapshot
  readonly events: EventLog
  readonly counters: CodeCounters
  readonly metrics: Metrics | undefined
  readonly conditions: ConditionReports
  readonly bans: RefusalBans
}

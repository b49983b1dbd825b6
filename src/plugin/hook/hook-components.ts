import type { Connections, Host } from '../parts/connections.js'
import type { CountingParts } from '../parts/counting.js'
import type { LogParts } from '../parts/log.js'
import type { openCharges, RequestParts } from '../parts/requests.js'
import type { RuleParts } from '../parts/rules.js'

/** The parts that the hook uses. */
export type HookComponents = Host &
  Connections &
  RuleParts &
  CountingParts &
  LogParts &
  RequestParts &
  ReturnType<typeof openCharges>

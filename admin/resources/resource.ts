import type { BaseResource, ResourceOptions } from 'adminjs'
import type { SmartRateLimit } from '../../src/app/smart-rate-limit.js'
import type { RateLimitClient } from '../../src/client.js'
import type { Internals } from '../../src/internals.js'

/** A table in the panel. */
export interface AdminResource {
  readonly resource: BaseResource
  readonly options: ResourceOptions
}

/** Where links lead to: the panel itself, and the dashboard next to it. Undefined where there is none. */
export interface Mounts {
  readonly panel: string | undefined
  /** Ends with a slash. */
  readonly dashboard: () => string | undefined
}

/** What the resources need of the plugin they belong to. */
export interface Parts {
  readonly client: RateLimitClient
  readonly internals: Internals
  readonly limits: SmartRateLimit
  readonly mounts: Mounts
}

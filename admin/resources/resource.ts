import type { BaseResource, ResourceOptions } from 'adminjs'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import type { Internals } from '../../src/plugin/internals.js'
import type { SmartRateLimit } from '../../src/plugin/smart-rate-limit.js'

/** A table in the panel. */
export interface AdminResource {
  readonly resource: BaseResource
  readonly options: ResourceOptions
}

/** The targets of links: the panel itself, and the dashboard next to it. Undefined where there is none. */
interface Mounts {
  readonly panel: string | undefined
  /** Returns an address that ends with a slash. */
  readonly dashboard: () => string | undefined
}

/** The parts of the plugin that the resources use. */
export interface ResourceDependencies {
  readonly client: RateLimitClient
  readonly internals: Internals
  readonly limits: SmartRateLimit
  readonly mounts: Mounts
}

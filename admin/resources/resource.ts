import type { ResourceOptions } from 'adminjs'
import type { RateLimitClient } from '../../src/client.js'
import type { Internals } from '../../src/internals.js'
import type { SmartRateLimit } from '../../src/smart-rate-limit.js'
import type { PanelResource } from '../panel-resource.js'

/** A table in the panel. */
export interface AdminResource {
  readonly resource: PanelResource
  readonly options: ResourceOptions
}

/** What the resources need of the plugin they belong to. */
export interface Parts {
  readonly client: RateLimitClient
  readonly internals: Internals
  readonly limits: SmartRateLimit
}

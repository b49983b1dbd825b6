import type { BaseResource, ResourceOptions } from 'adminjs'
import type { RateLimitClient } from '../../src/plugin/client/client.js'

/** A table in the panel. */
export interface AdminResource {
  readonly resource: BaseResource
  readonly options: ResourceOptions
}

/** The source of the rows. Every write goes through the client, which validates it. */
export interface Source {
  readonly client: RateLimitClient
  readonly provider: 'sqlite' | 'postgresql'
}

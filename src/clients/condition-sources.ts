import type { Geo } from './geo.js'
import { type NamedLists, NO_LISTS } from './named-lists.js'

/** What the conditions of an app may ask, beside the request. */
export interface ConditionSources {
  readonly lists: NamedLists
  /** Undefined where the app has no files about addresses. */
  readonly geo: Geo | undefined
}

export const NO_SOURCES: ConditionSources = { lists: NO_LISTS, geo: undefined }

import type { PropertyOptions } from 'adminjs'

/** How a field is edited. */
export interface FieldLook {
  readonly kind: 'text' | 'lines' | 'code' | 'number' | 'boolean' | 'select' | 'methods' | 'key' | 'moment'
  readonly help?: string
  readonly example?: string
  /** Beside a box to tick. */
  readonly label?: string
  readonly options?: readonly Choice[]
  /** What a new row begins with. */
  readonly initial?: string | number | boolean
}

export interface Choice {
  readonly value: string
  readonly label: string
}

const PLACES = ['list', 'show', 'edit', 'filter'] as const

type Place = (typeof PLACES)[number]

/** A field with its help beside it, which AdminJS hides behind a mark, and its errors as the validation words them. */
export function field(look: FieldLook): PropertyOptions {
  return { custom: { ...look }, components: { edit: 'RateLimitField', filter: 'RateLimitField' } }
}

/** A choice, where a list is filtered. */
export function filterBy(choices: readonly Choice[]): PropertyOptions {
  return { props: { choices }, components: { edit: 'RateLimitField', filter: 'RateLimitSelect' } }
}

/** A field that is to be seen in these places alone. */
export function only(...places: Place[]): PropertyOptions {
  return { isVisible: Object.fromEntries(PLACES.map((place) => [place, places.includes(place)])) }
}

/** How a moment is shown. */
export const MOMENT: PropertyOptions = { components: { list: 'RateLimitMoment', show: 'RateLimitMoment' } }

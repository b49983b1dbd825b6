import type { PropertyOptions } from 'adminjs'
import type { Choice } from '../../src/rules/description.js'

const PLACES = ['list', 'show', 'edit', 'filter'] as const

type Place = (typeof PLACES)[number]

/** A field of a filter with its help beside it, which AdminJS hides behind a mark. */
export function filterByText(help: string): PropertyOptions {
  return { custom: { kind: 'text', help }, components: { edit: 'RateLimitField', filter: 'RateLimitField' } }
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

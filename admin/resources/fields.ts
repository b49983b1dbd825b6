import type { PropertyOptions } from 'adminjs'
import type { Choice } from '../../src/rules/description.js'

const VIEWS = ['list', 'show', 'edit', 'filter'] as const

type View = (typeof VIEWS)[number]

/** Returns a field of a filter with its help beside it, which AdminJS hides behind a mark. */
export function filterByText(help: string): PropertyOptions {
  return { custom: { kind: 'text', help }, components: { edit: 'RateLimitField', filter: 'RateLimitField' } }
}

/** Returns a field of a filter with choices. */
export function filterBy(choices: readonly Choice[]): PropertyOptions {
  return { props: { choices }, components: { edit: 'RateLimitField', filter: 'RateLimitSelect' } }
}

/** Returns a field that is visible only in these views. */
export function only(...views: View[]): PropertyOptions {
  return { isVisible: Object.fromEntries(VIEWS.map((view) => [view, views.includes(view)])) }
}

/** The presentation of a moment. */
export const MOMENT: PropertyOptions = { components: { list: 'RateLimitMoment', show: 'RateLimitMoment' } }

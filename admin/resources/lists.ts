import type { ActionRequest, ActionResponse, After } from 'adminjs'
import { allowed, type PanelAction } from './actions.js'

type FilterKind = 'text' | 'switch' | 'period'
export type Filters = Readonly<Record<string, FilterKind>>

/** The length is more than that of any sensible filter. */
const MAX_LENGTH = 500
const ORDERS = ['asc', 'desc']

/**
 * Returns the action of a list that takes no parameters of an address but those that the database understands.
 *
 * @param sortable the fields by which an address may sort the list
 */
export function listBy(filters: Filters, sortable: readonly string[], after?: After<ActionResponse>): PanelAction {
  async function takeParameters(request: ActionRequest): Promise<ActionRequest> {
    const parameters: Readonly<Record<string, unknown>> = request.query ?? {}
    const { page, perPage, sortBy, direction } = parameters
    const isSorted = sortable.includes(String(sortBy)) && ORDERS.includes(String(direction))
    const query = {
      page: toCount(page) ?? 1,
      ...(toCount(perPage) !== undefined && { perPage: toCount(perPage) }),
      ...(isSorted && { sortBy, direction }),
      ...Object.fromEntries(Object.entries(filters).flatMap(([name, kind]) => toParameters(name, kind, parameters))),
    }
    return { ...request, query }
  }
  return allowed({ before: takeParameters, ...(after !== undefined && { after }) })
}

function toCount(value: unknown): number | undefined {
  const number = Number(value)
  return Number.isSafeInteger(number) && number > 0 ? number : undefined
}

/** Returns the valid values of a filter, as the address has them. */
function toParameters(
  name: string,
  kind: FilterKind,
  parameters: Readonly<Record<string, unknown>>,
): [string, string][] {
  const names = kind === 'period' ? [`filters.${name}~~from`, `filters.${name}~~to`] : [`filters.${name}`]
  return names.flatMap((each): [string, string][] => {
    // PostgreSQL refuses NUL.
    const text = String(parameters[each] ?? '')
      .trim()
      .replaceAll('\0', '')
      .slice(0, MAX_LENGTH)
      .toWellFormed()
    const isValid = kind === 'text' ? text !== '' : kind === 'switch' ? /^(?:true|false)$/.test(text) : isMoment(text)
    return isValid ? [[each, text]] : []
  })
}

function isMoment(text: string): boolean {
  const year = new Date(text).getUTCFullYear()
  return year >= 1 && year <= 9_999
}

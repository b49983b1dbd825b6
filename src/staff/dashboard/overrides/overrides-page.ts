import { isPosition, type Page, type PageStart } from '../../../database/list.js'
import { BAN_NOTE } from '../../../rules/ban.js'
import { entryVersion } from '../../../rules/entry-version.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import { formatTime, toMoment, visible } from '../format.js'
import { clientHref, newOverrideHref } from '../links.js'
import { EVERY_PATH } from '../override-actions.js'
import { actorWords, effectTone, effectWords, endWords } from '../override-words.js'
import { KINDS, type ListedOverride, ORDERS, type OverrideListing, overrideOrder, STATES } from './list-overrides.js'

/** The view that the address asks for. */
export interface OverrideView {
  readonly listing: OverrideListing
  readonly from: PageStart | undefined
  /** Whether all boxes are ticked. */
  readonly isTicked: boolean
}

const LIST = 'overrides.html'
/** The longest address of a position: a client and a path pattern. */
const MAX_POSITION_LENGTH = 4_000
/** The window of the page of a client that the list leads to. */
const CLIENT_DAYS = 7

/** Reads what the list is asked to show; a parameter that means nothing is as if it were not there. */
export function readOverrideView(field: (name: string) => string): OverrideView {
  const oneOf = <Value extends string>(values: readonly Value[], name: string) =>
    values.find((value) => value === field(name))
  const order = oneOf(ORDERS, 'order') ?? 'newest'
  return {
    listing: {
      text: field('q').trim(),
      kind: oneOf(KINDS, 'kind'),
      state: oneOf(STATES, 'state'),
      order,
    },
    from: parsePosition(order, 'after', field('after')) ?? parsePosition(order, 'before', field('before')),
    isTicked: field('tick') === 'all',
  }
}

function parsePosition(order: OverrideListing['order'], side: PageStart['side'], text: string): PageStart | undefined {
  if (text === '' || text.length > MAX_POSITION_LENGTH) return undefined
  try {
    const position: unknown = JSON.parse(text)
    return isPosition(overrideOrder(order), position) ? { side, position } : undefined
  } catch {
    return undefined
  }
}

/** Returns the parameters of a list, without its position. */
export function listFields({ text, kind, state, order }: OverrideListing): [name: string, value: string][] {
  const fields: [string, string][] = [
    ['q', text],
    ['kind', kind ?? ''],
    ['state', state ?? ''],
    ['order', order === 'newest' ? '' : order],
  ]
  return fields.filter(([, value]) => value !== '')
}

export function listHref(listing: OverrideListing, further: readonly [name: string, value: string][] = []): string {
  const query = new URLSearchParams([...listFields(listing), ...further]).toString()
  return query === '' ? LIST : `${LIST}?${query}`
}

/**
 * Returns the context of `overrides.hbs`.
 *
 * @param token of the forms; undefined for staff who may not write
 */
export function overridesContext(
  view: OverrideView,
  page: Page<ListedOverride>,
  token: string | undefined,
  nowMs: number,
) {
  const { listing, from, isTicked } = view
  const { rows: overrides, hasBefore, hasAfter } = page
  const here: [string, string][] = from === undefined ? [] : [[from.side, JSON.stringify(from.position)]]
  const href = (side: PageStart['side'], row: ListedOverride | undefined) =>
    row === undefined ? undefined : listHref(listing, [[side, JSON.stringify(row.position)]])
  return {
    title: 'Overrides and bans',
    subtitle: 'Rate limits',
    text: listing.text,
    kinds: choices(KIND_NAMES, listing.kind ?? ''),
    states: choices(STATE_NAMES, listing.state ?? ''),
    orders: choices(ORDER_NAMES, listing.order),
    is_filtered: listing.text !== '' || listing.kind !== undefined || listing.state !== undefined,
    clear_href: LIST,
    new_href: token === undefined ? undefined : newOverrideHref(),
    token,
    kept: listFields(listing).map(([name, value]) => ({ name, value })),
    tick_href: listHref(listing, [...here, ...(isTicked ? [] : [['tick', 'all'] as [string, string]])]),
    ticked: isTicked,
    overrides: overrides.map((row) => overrideRow(row, nowMs)),
    pages:
      hasBefore || hasAfter
        ? {
            first_href: hasBefore ? listHref(listing) : undefined,
            previous_href: hasBefore ? href('before', overrides[0]) : undefined,
            next_href: hasAfter ? href('after', overrides.at(-1)) : undefined,
          }
        : undefined,
    now: toMoment(nowMs),
  }
}

const TEXTS = ['client', 'effect', 'pathPattern', 'note'] as const

/** Returns what a list says of an override. */
export function overrideRow({ id, entry, isInForce, updatedAt, actor }: ListedOverride, nowMs: number) {
  // Raw SQL may have written values of other types.
  const [client = '', effect = '', pathPattern = '', note = ''] = TEXTS.map((name) => String(entry[name]))
  const expiresAtMs = entry.expiresAt === null ? null : Date.parse(entry.expiresAt)
  const isInvalid = Object.keys(OVERRIDES.errors({ ...entry }, 'stored', nowMs)).length > 0
  const isBan = effect === 'deny' && pathPattern === '' && note.startsWith(BAN_NOTE)
  return {
    id,
    seen: `${id}:${entryVersion(entry)}`,
    client: visible(client),
    href: `override.html?id=${id}`,
    client_href: clientHref(client, { days: CLIENT_DAYS }),
    effect: isBan ? 'Denied (ban)' : effectWords(effect),
    tone: !isInForce || isInvalid ? 'no' : effectTone(effect),
    path: pathPattern === EVERY_PATH ? '' : visible(pathPattern),
    end: isInvalid ? 'Not valid: it never applies' : endText(expiresAtMs, isInForce, nowMs),
    who: sentence(actorWords(actor, 'by')),
    since: Number.isNaN(new Date(updatedAt).getTime()) ? undefined : toMoment(updatedAt),
    note: visible(note),
  }
}

function endText(expiresAtMs: number | null, isInForce: boolean, nowMs: number): string {
  if (expiresAtMs === null) return sentence(endWords(null))
  if (isInForce) return sentence(endWords(expiresAtMs))
  return expiresAtMs <= nowMs
    ? `Ended ${formatTime(expiresAtMs)} UTC`
    : 'Begins in the future: written by a server with a wrong clock'
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

const KIND_NAMES = [
  ['', 'All effects'],
  ['blocks', 'Blocks'],
  ['bans', 'Bans by rules'],
  ['exemptions', 'Exemptions'],
  ['rates', 'Rates'],
] as const

const STATE_NAMES = [
  ['', 'In force or ended'],
  ['in-force', 'In force'],
  ['expired', 'Over'],
] as const

const ORDER_NAMES = [
  ['newest', 'Newest first'],
  ['client', 'By client'],
  ['end', 'Ending next'],
] as const

function choices(names: readonly (readonly [value: string, name: string])[], selected: string) {
  return names.map(([value, name]) => ({ value, name, selected: value === selected }))
}

import type { FieldErrors } from '../../../ground/errors.js'
import { shortened } from '../../../ground/shortened.js'
import type { Description, Entry, FieldTable, Values } from '../../../rules/description.js'
import type { Difference } from '../../../rules/exchange/difference.js'
import type { ImportResult } from '../../../rules/exchange/exchange.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import { RULES } from '../../../rules/rule.js'
import { fieldChanges } from '../changes/change-sentence.js'
import { formatCount, visible } from '../format.js'

/** Rows of each kind that the page lists; the others are counted. */
const MAX_LISTED = 50
const PIECE = 65_536
/** The longest name of a row that an error has whole. */
const SHOWN_NAME = 255
const ENTITIES = { rule: 'Rules', override: 'Overrides and bans' } as const
const ACTIONS = { create: 'created', update: 'changed', delete: 'deleted' } as const

type Action = keyof typeof ACTIONS

/** A row, or the fields of one that change, before and after an import. */
type Sides = [before: Values | null, after: Values | null]

/** Returns what an import would do, in the order of the page. */
export function differenceView({ rules, overrides, expired }: ImportResult) {
  const groups = [...groupsOf(RULES, rules), ...groupsOf(OVERRIDES, overrides)]
  return {
    summary: importWords({ rules, overrides }),
    is_empty: groups.length === 0,
    groups,
    expired: expired === 0 ? undefined : formatCount(expired),
  }
}

/** Returns the numbers of an import: `2 created, 1 changed, 0 deleted, 40 unchanged`. */
export function importWords({ rules, overrides }: Pick<ImportResult, 'rules' | 'overrides'>): string {
  const sum = (kind: 'created' | 'updated' | 'deleted') => formatCount(rules[kind].length + overrides[kind].length)
  const unchanged = formatCount(rules.unchanged + overrides.unchanged)
  return `${sum('created')} created, ${sum('updated')} changed, ${sum('deleted')} deleted, ${unchanged} unchanged`
}

function groupsOf<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  { created, updated, deleted }: Difference<Entry<Table>, Identity>,
) {
  return [
    group(description, 'create', created, (after) => [null, after]),
    group(description, 'update', updated, ({ changes }) => [side(changes, 0), side(changes, 1)]),
    group(description, 'delete', deleted, (before) => [before, null]),
  ].filter(({ count }) => count !== '0')
}

function group<Row extends Values>(
  { entity, identity }: Pick<Description, 'entity' | 'identity'>,
  action: Action,
  rows: readonly Row[],
  sides: (row: Row) => Sides,
) {
  const listed = rows.slice(0, MAX_LISTED)
  return {
    title: `${ENTITIES[entity]} that would be ${ACTIONS[action]}`,
    count: formatCount(rows.length),
    is_update: action === 'update',
    others: rows.length === listed.length ? undefined : formatCount(rows.length - listed.length),
    rows: listed.map((row) => {
      const [name = '', ...further] = identity.map((field) => visible(String(row[field] ?? '')))
      return { name, further: further.join(' '), fields: fieldChanges(entity, ...sides(row)) }
    }),
  }
}

function side(changes: object, index: 0 | 1): Values {
  return Object.fromEntries(Object.entries(changes).map(([field, values]) => [field, values[index]]))
}

/** Matches the place of an error in a row of a document. */
const PLACE = /^(rules|overrides)\[(\d+)\]/

/** Returns the errors of a document, each with the name of its row. */
export function errorViews(document: unknown, errors: FieldErrors) {
  return Object.entries(errors).map(([place, message]) => ({
    place: visible(place),
    row: rowName(document, place),
    message: visible(message),
  }))
}

/** Returns the name of the row that an error is in; undefined where it has none. */
function rowName(document: unknown, place: string): string | undefined {
  const [, list = '', index = ''] = PLACE.exec(place) ?? []
  const row: unknown = Object(Object(document)[list])[index]
  const name: unknown = Object(row)[list === 'rules' ? 'name' : 'client']
  return typeof name === 'string' && name !== '' ? visible(shortened(name, SHOWN_NAME)) : undefined
}

/** Yields a text for a `textarea`, where only two characters have a meaning, in pieces. */
export function* areaTexts(text: string): Generator<string> {
  for (const piece of piecesOf(text)) yield piece.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

/** Yields a text in pieces that are a fraction of a millisecond of work. */
export function* piecesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const isCut = isHighSurrogate(text.charCodeAt(start + PIECE - 1))
    const end = start + PIECE - (isCut ? 1 : 0)
    yield text.slice(start, end)
    start = end
  }
}

/** Returns whether a unit of UTF-16 is the first half of a character. */
function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

/** The two lists of a rule document, and the tables behind them. */

import type { FieldErrors } from '../errors.js'
import { Check, type Type } from '../generated/typebox.js'
import type { Fields } from './field-checks.js'
import { normalOverride, overrideErrors } from './override.js'
import { normalRule, ruleErrors } from './rule.js'
import { OVERRIDE_ENTRY, type OverrideEntry, RULE_ENTRY, type RuleEntry } from './rule-document.js'

/** A column of the identity is a `text` too. A `moment` is an ISO text in a document, or null. */
type ColumnKind = 'text' | 'boolean' | 'bigint' | 'moment'

/** A list of a document: how its entries are checked, told apart, sorted and stored. */
export interface Section<Entry, Identity extends keyof Entry> {
  readonly place: 'rules' | 'overrides'
  readonly entity: 'rule' | 'override'
  readonly table: string
  readonly schema: Type.TObject
  readonly columns: readonly (readonly [field: keyof Entry & string, column: string, kind: ColumnKind])[]
  /** The fields by which an entry is found again; texts. */
  readonly identity: readonly string[]
  identify(entry: Entry): Readonly<Pick<Entry, Identity>>
  /** One message for every wrong field; `fields` has the defaults. */
  errors(fields: Fields): FieldErrors
  /** What is stored otherwise than given, in fields that are right. */
  normal(fields: Fields): Fields
  isEntry(fields: Fields): fields is Entry & Fields
  hasExpired(entry: Entry, nowMs: number): boolean
  /** The order of an export. */
  order(a: Entry, b: Entry): number
}

export const RULES: Section<RuleEntry, 'name'> = {
  place: 'rules',
  entity: 'rule',
  table: 'rate_limit_rule',
  schema: RULE_ENTRY,
  columns: [
    ['name', 'name', 'text'],
    ['description', 'description', 'text'],
    ['pathPattern', 'path_pattern', 'text'],
    ['method', 'method', 'text'],
    ['rate', 'rate', 'text'],
    ['key', 'key', 'text'],
    ['algorithm', 'algorithm', 'text'],
    ['block', 'block', 'boolean'],
    ['isActive', 'is_active', 'boolean'],
    ['priority', 'priority', 'bigint'],
  ],
  identity: ['name'],
  identify: ({ name }) => ({ name }),
  errors: (fields) => ruleErrors(fields, 'new'),
  normal: normalRule,
  isEntry: (fields) => Check(RULE_ENTRY, fields),
  hasExpired: () => false,
  order: (a, b) => b.priority - a.priority || compareTexts(a.name, b.name),
}

export const OVERRIDES: Section<OverrideEntry, 'client' | 'pathPattern'> = {
  place: 'overrides',
  entity: 'override',
  table: 'rate_limit_override',
  schema: OVERRIDE_ENTRY,
  columns: [
    ['client', 'client', 'text'],
    ['effect', 'effect', 'text'],
    ['algorithm', 'algorithm', 'text'],
    ['pathPattern', 'path_pattern', 'text'],
    ['expiresAt', 'expires_at', 'moment'],
    ['note', 'note', 'text'],
  ],
  identity: ['client', 'pathPattern'],
  identify: ({ client, pathPattern }) => ({ client, pathPattern }),
  // An expiry that is past is no mistake here: the file has grown old, and the entry is left out.
  errors: (fields) => overrideErrors(fields, 'new', Number.NEGATIVE_INFINITY),
  normal: normalEntry,
  isEntry: (fields) => Check(OVERRIDE_ENTRY, fields),
  hasExpired: ({ expiresAt }, nowMs) => expiresAt !== null && Date.parse(expiresAt) <= nowMs,
  order: (a, b) => compareTexts(a.client, b.client) || compareTexts(a.pathPattern, b.pathPattern),
}

/** The fields of the identity as one text. */
export function identityOf<Entry, Identity extends keyof Entry>(
  section: Section<Entry, Identity>,
  entry: Entry,
): string {
  return JSON.stringify(section.identify(entry))
}

/** A moment has one spelling, so that the same one is no change. */
function normalEntry(fields: Fields): Fields {
  const { expiresAt } = fields
  const moment = typeof expiresAt === 'string' ? { expiresAt: new Date(expiresAt).toISOString() } : {}
  return { ...normalOverride(fields), ...moment }
}

/** The same order everywhere, whatever the language of the machine. */
function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

import type { ConditionSources } from '../../clients/condition-sources.js'
import { RuleDocumentError } from '../../ground/errors.js'
import { shortened } from '../../ground/shortened.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { createEntry, type EntryContext } from '../create-entry.js'
import { type Description, type Entry, type FieldTable, toIdentity, type Values } from '../description.js'
import { OVERRIDES, type OverrideEntry } from '../overrides/override.js'
import { RULES } from '../rule.js'
import type { RuleEntry } from '../rule-fields.js'
import { DOCUMENT_VERSION } from './rule-document.js'

/** A valid document, as it is to be stored. A list that it lacks is undefined. */
export interface ValidDocument {
  readonly rules: readonly RuleEntry[] | undefined
  readonly overrides: readonly OverrideEntry[] | undefined
}

/** Records an error and its location. The first error of a location stays. */
type Complain = (location: string, message: string) => void

/** The number of errors after which no more entries are checked: an unrelated file may have millions. */
const ENOUGH = 100
/** The number of unknown fields of an object after which no more are looked for. */
const ENOUGH_UNKNOWN = 100
const SHOWN_VERSION = 50
/** The most characters of a message. */
const MAX_MESSAGE = 600
/** The longest name of an unknown field that an error has whole. */
const SHOWN_NAME = 100
const FIELD_NAMES = ['$schema', 'version', RULES.list, OVERRIDES.list]

/**
 * Validates a document, and lets other work of the process run in between.
 *
 * @param document the parsed JSON
 * @param nowMs the time from which durations count
 * @param sources what conditions may ask; undefined where that is not known
 * @throws RuleDocumentError with a message for every wrong field, up to some hundred
 */
export async function validateDocument(
  document: unknown,
  nowMs: number,
  sources?: ConditionSources,
): Promise<ValidDocument> {
  const errors = new Map<string, string>()
  const complain: Complain = (location, message) => errors.set(location, errors.get(location) ?? inFewWords(message))
  if (!isObject(document)) throw new RuleDocumentError({ document: 'must be an object' })
  const { version, $schema = '' } = document
  // The meaning of another version is unknown.
  if (version !== DOCUMENT_VERSION) throw new RuleDocumentError({ version: versionComplaint(version) })
  for (const [field, message] of unknownFields(document, FIELD_NAMES)) complain(field || 'document', message)
  if (typeof $schema !== 'string') complain('$schema', 'must be a text')
  if (document.rules === undefined && document.overrides === undefined) {
    complain('rules', 'is missing: give "rules", "overrides" or both; an empty list deletes all')
  }
  const isEnough = () => errors.size >= ENOUGH
  // A past expiry is no error here: the file is old, and the entry is left out.
  const context = { nowMs, expiredMs: Number.NEGATIVE_INFINITY, sources }
  const rules = await validateEntries(RULES, document.rules, context, complain, isEnough)
  const overrides = await validateEntries(OVERRIDES, document.overrides, context, complain, isEnough)
  if (errors.size > 0) throw new RuleDocumentError(Object.fromEntries(errors))
  return { rules, overrides }
}

/** Returns a message without most of the text that it quotes: its end has the remedy. */
function inFewWords(message: string): string {
  if (message.length <= MAX_MESSAGE) return message
  return shortened(message, MAX_MESSAGE / 2) + message.slice(-MAX_MESSAGE / 2).replace(/^[\udc00-\udfff]/, '')
}

function versionComplaint(version: unknown): string {
  if (version === undefined) return `is missing: give ${DOCUMENT_VERSION}`
  const isShort = typeof version === 'number' || (typeof version === 'string' && version.length <= SHOWN_VERSION)
  // A list may be nested deeper than it can be quoted.
  const shown = isShort ? JSON.stringify(version) : 'another one'
  return `is ${shown}: this version of the package reads ${DOCUMENT_VERSION}`
}

async function validateEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  list: unknown,
  context: EntryContext,
  complain: Complain,
  isEnough: () => boolean,
): Promise<Entry<Table>[] | undefined> {
  if (list === undefined) return undefined
  if (!Array.isArray(list)) {
    complain(description.list, 'must be a list')
    return undefined
  }
  const entries: Entry<Table>[] = []
  const locations = new Map<string, string>()
  const slices = new CooperativeYield()
  for (const [index, value] of list.entries()) {
    const location = `${description.list}[${index}]`
    if (isEnough()) {
      complain(description.list, `has more than ${ENOUGH} errors: ${location} and later entries were not validated`)
      break
    }
    const entry = validateEntry(description, location, value, context, complain)
    if (entry !== undefined) {
      const identity = toIdentity(description, entry)
      const twin = locations.get(identity)
      if (twin === undefined) locations.set(identity, location)
      else complain(location, `is the same ${description.entity} as ${twin}: ${identity}`)
      entries.push(entry)
    }
    if (slices.over()) await slices.pause()
  }
  return entries
}

/** Returns the entry as it is to be stored, or undefined when it is invalid. */
function validateEntry<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  location: string,
  value: unknown,
  context: EntryContext,
  complain: Complain,
): Entry<Table> | undefined {
  if (!isObject(value)) {
    complain(location, 'must be an object')
    return undefined
  }
  const { fields, shorthand } = description
  const accepted = [...Object.keys(fields), ...(shorthand === undefined ? [] : [shorthand.name])]
  const created = createEntry(description, value, 'new', context)
  const errors = new Map([...Object.entries(created.errors), ...unknownFields(value, accepted)])
  for (const [field, message] of errors) complain(field === '' ? location : `${location}.${field}`, message)
  return errors.size === 0 && 'entry' in created ? created.entry : undefined
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns the complaints about the first unknown fields of an object, and one without a field when there are more. */
function unknownFields(values: Values, names: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const field of Object.keys(values)) {
    if (names.includes(field) || values[field] === undefined) continue
    if (found.size === ENOUGH_UNKNOWN) {
      found.set('', 'has more fields that do not exist')
      break
    }
    found.set(shortened(field, SHOWN_NAME), `does not exist: give one of ${names.join(', ')}`)
  }
  return found
}

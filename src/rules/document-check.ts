import { RuleDocumentError } from '../errors.js'
import { Check } from '../generated/typebox.js'
import { Slices } from '../time/slices.js'
import type { Fields } from './field-checks.js'
import { DOCUMENT_FIELDS, DOCUMENT_VERSION, defaultsOf, type OverrideEntry, type RuleEntry } from './rule-document.js'
import { identityOf, OVERRIDES, RULES, type Section } from './sections.js'

/** A document that was understood, as it is to be stored. A list that it does not have is undefined. */
export interface CheckedDocument {
  readonly rules: readonly RuleEntry[] | undefined
  readonly overrides: readonly OverrideEntry[] | undefined
}

/** Notes what is wrong, and where. The first complaint about a place stays. */
type Complain = (place: string, message: string) => void

/** Wrong places after which no more entries are looked at: a file of something else may have millions. */
const ENOUGH = 10_000

/**
 * Checks a document, and lets other work of the process run in between.
 *
 * @param document what was parsed from JSON
 * @throws RuleDocumentError with a message for every wrong place, up to ten thousand or so
 */
export async function checkDocument(document: unknown): Promise<CheckedDocument> {
  const errors = new Map<string, string>()
  const complain: Complain = (place, message) => errors.set(place, errors.get(place) ?? message)
  const given = fieldsOf(document)
  if (given === undefined) throw new RuleDocumentError({ document: 'must be an object' })
  // Nothing can be said about what another version means.
  if (given.version !== DOCUMENT_VERSION) throw new RuleDocumentError({ version: versionComplaint(given.version) })
  for (const field of Object.keys(given)) {
    const isKnown = Object.hasOwn(DOCUMENT_FIELDS, field) || field === RULES.place || field === OVERRIDES.place
    if (!isKnown) complain(field, 'does not exist: known are $schema, version, rules, overrides')
  }
  if (!Check(DOCUMENT_FIELDS.$schema, given.$schema ?? '')) complain('$schema', 'must be a text')
  if (given.rules === undefined && given.overrides === undefined) {
    complain('rules', 'is missing: give "rules", "overrides" or both; an empty list deletes all')
  }
  const isEnough = () => errors.size >= ENOUGH
  const rules = await checkEntries(RULES, given.rules, complain, isEnough)
  const overrides = await checkEntries(OVERRIDES, given.overrides, complain, isEnough)
  if (errors.size > 0) throw new RuleDocumentError(Object.fromEntries(errors))
  return { rules, overrides }
}

function versionComplaint(version: unknown): string {
  if (version === undefined) return `is missing: give ${DOCUMENT_VERSION}`
  return `is ${JSON.stringify(version)}: this version of the package reads ${DOCUMENT_VERSION}`
}

async function checkEntries<Entry, Identity extends keyof Entry>(
  section: Section<Entry, Identity>,
  given: unknown,
  complain: Complain,
  isEnough: () => boolean,
): Promise<Entry[] | undefined> {
  if (given === undefined) return undefined
  if (!Array.isArray(given)) {
    complain(section.place, 'must be a list')
    return undefined
  }
  const defaults = defaultsOf(section.schema)
  const entries: Entry[] = []
  const places = new Map<string, string>()
  const slices = new Slices()
  for (const [index, value] of given.entries()) {
    const place = `${section.place}[${index}]`
    if (isEnough()) {
      complain(section.place, `has more that is wrong, perhaps: ${place} and what follows was not looked at`)
      break
    }
    const entry = checkEntry(section, place, value, defaults, complain)
    if (entry !== undefined) {
      const identity = identityOf(section, entry)
      const twin = places.get(identity)
      if (twin === undefined) places.set(identity, place)
      else complain(place, `is the same ${section.entity} as ${twin}: ${identity}`)
      entries.push(entry)
    }
    if (slices.over()) await slices.pause()
  }
  return entries
}

/** The entry as it is to be stored, or undefined when something is wrong with it. */
function checkEntry<Entry, Identity extends keyof Entry>(
  section: Section<Entry, Identity>,
  place: string,
  value: unknown,
  defaults: Fields,
  complain: Complain,
): Entry | undefined {
  const given = fieldsOf(value)
  if (given === undefined) {
    complain(place, 'must be an object')
    return undefined
  }
  const fields = { ...defaults, ...given }
  const { properties } = section.schema
  const errors = new Map(Object.entries(section.errors(fields)))
  for (const field of Object.keys(given)) {
    const isKnown = Object.hasOwn(properties, field)
    if (!isKnown) errors.set(field, `does not exist: known are ${Object.keys(properties).join(', ')}`)
  }
  for (const [field, schema] of Object.entries(properties)) {
    const isAllowed = errors.has(field) || Check(schema, fields[field])
    if (!isAllowed) errors.set(field, `${JSON.stringify(fields[field])} is not what rules.schema.json allows`)
  }
  for (const [field, message] of errors) complain(`${place}.${field}`, message)
  if (errors.size > 0) return undefined
  const stored = { ...fields, ...section.normal(fields) }
  const entry = Object.fromEntries(section.columns.map(([field]) => [field, stored[field]]))
  if (section.isEntry(entry)) return entry
  complain(place, 'is not what rules.schema.json allows')
  return undefined
}

/** The fields of a plain object; one that is `undefined` counts as left out. */
function fieldsOf(value: unknown): Fields | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined))
}

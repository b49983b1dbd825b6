/** Says in words what a change did. */
import type { Field } from '../../../ground/field.js'
import { shortened } from '../../../ground/shortened.js'
import { POLICY_SCOPE } from '../../../reports/incidents/incident.js'
import { type Description, defaultsFor, fieldEntries, type Values } from '../../../rules/description.js'
import { type Change, type ChangedFields, DESCRIPTIONS } from '../../../rules/history/history.js'
import { formatTime, visible } from '../format.js'
import { EVERY_PATH } from '../override-actions.js'
import { endWords } from '../override-words.js'

/** A field that a change wrote, as the page shows it side by side. */
export interface FieldChange {
  readonly name: string
  readonly title: string
  /** The name in a sentence. */
  readonly noun: string
  /** The value before; undefined where the row was created. */
  readonly before: string | undefined
  /** The value after; undefined where the row was deleted. */
  readonly after: string | undefined
}

export interface ChangeWords {
  /** The change in words, without who made it and when: `changed the rate of rule login from 5/m to 10/m`. */
  readonly sentence: string
  /** The fields that differ; of a row that was created or deleted, those that are not the default. */
  readonly fields: readonly FieldChange[]
}

type Described = Pick<Change, 'entity' | 'name' | 'action' | 'before' | 'after'>

/** The fields of a created rule that its sentence does not list. */
const SAID_OTHERWISE = ['name', 'description']
/** The number of fields, and one, above which the others are only counted in a sentence. */
const MAX_IN_SENTENCE = 3
/** A longer value is cut in a sentence; the fields have all of it. */
const MAX_VALUE_LENGTH = 60

/** Describes a change. */
export function describeChange(change: Described): ChangeWords {
  const { entity, before, after } = change
  if (entity === 'incident') return { sentence: incidentSentence(change), fields: [] }
  const fields = fieldChanges(entity, before, after)
  return { sentence: entity === 'rule' ? ruleSentence(change, fields) : overrideSentence(change, fields), fields }
}

/** Returns the fields that differ in two states, of the history or of documents: what a state lacks is the default. */
export function fieldChanges(
  entity: Description['entity'],
  before: Values | null,
  after: Values | null,
): FieldChange[] {
  const { fields } = DESCRIPTIONS[entity]
  const defaults = defaultsFor(fields)
  const text = (state: Values | null, name: string, field: Field) =>
    valueText(field, state?.[name] === undefined ? defaults[name] : state[name])
  return fieldEntries(fields).flatMap(([name, field]) => {
    const [old, now] = [text(before, name, field), text(after, name, field)]
    if (old === now) return []
    const { title } = field.panel
    return [
      {
        name,
        title,
        noun: field.panel.noun ?? `${title.charAt(0).toLowerCase()}${title.slice(1)}`,
        before: before === null ? undefined : old,
        after: after === null ? undefined : now,
      },
    ]
  })
}

/** Returns a stored value as it is shown; moments are in milliseconds since the epoch, or in the text of documents. */
function valueText({ kind }: Pick<Field, 'kind'>, value: unknown): string {
  if (value === null || value === undefined || value === '') return 'none'
  if (kind === 'boolean') return value === true || value === 1 ? 'yes' : 'no'
  // Raw SQL may have written a moment that is no time.
  const ms = kind === 'moment' ? new Date(typeof value === 'number' ? value : String(value)).getTime() : Number.NaN
  return Number.isNaN(ms) ? visible(String(value)) : `${formatTime(ms)} UTC`
}

/** Names an incident: `incident of the policy search`. */
export function incidentNoun(name: string): string {
  return `incident of ${name.startsWith(POLICY_SCOPE) ? `the policy ${visible(name.slice(POLICY_SCOPE.length))}` : visible(name)}`
}

function incidentSentence({ name, after }: Described): string {
  const of = `the ${incidentNoun(name)}`
  return after?.ignored === true ? `ignored ${of}` : `watched ${of} again`
}

function ruleSentence({ name, action, before, after }: Described, fields: readonly FieldChange[]): string {
  const rule = `rule ${visible(name)}`
  if (action !== 'update') {
    const others = fields.filter((field) => !SAID_OTHERWISE.includes(field.name))
    return `${action === 'create' ? 'created' : 'deleted'} ${rule}${others.length === 0 ? '' : ` with ${listed(others)}`}`
  }
  const [only] = fields
  if (only === undefined) return `saved ${rule} without changes`
  if (fields.length > 1) return `changed ${listed(fields)} of ${rule}`
  if (only.name === 'isActive') return `switched ${rule} ${after?.isActive ? 'on' : 'off'}`
  if (only.name === 'name') return `renamed rule ${visible(String(before?.name))} to ${visible(String(after?.name))}`
  return `changed the ${only.noun} of ${rule} from ${cut(only.before)} to ${cut(only.after)}`
}

function overrideSentence({ name, action, before, after }: Described, fields: readonly FieldChange[]): string {
  if (action === 'create') return `${stateWords(after, name)}`
  if (action === 'delete') return `ended the ${overrideNoun(before)} of ${visible(name)}${whereWords(before)}`
  if (fields.length === 0) return `saved the override of ${visible(name)} without changes`
  const [only] = fields
  return fields.length === 1 && only !== undefined
    ? `changed the ${only.noun} of the override of ${visible(name)} from ${cut(only.before)} to ${cut(only.after)}`
    : `changed ${listed(fields)} of the override of ${visible(name)}`
}

/** Returns what an override does: `denied ip:203.0.113.7 until 2026-01-15 14:00:00 UTC`. */
function stateWords(fields: ChangedFields | null, name: string): string {
  const { effect, expiresAt } = fields ?? {}
  const client = visible(name)
  const done =
    effect === 'deny'
      ? `denied ${client}`
      : effect === 'allow'
        ? `exempted ${client} from all limits`
        : `limited ${client} to ${visible(String(effect))}`
  return `${done}${whereWords(fields)} ${endWords(typeof expiresAt === 'number' ? expiresAt : null)}`
}

/** Names an override: `block`, `exemption`, `limit of 300/m`. */
export function overrideNoun(fields: ChangedFields | null): string {
  const effect = String(fields?.effect ?? '')
  if (effect === 'deny') return 'block'
  return effect === 'allow' ? 'exemption' : `limit of ${visible(effect)}`
}

function whereWords(fields: ChangedFields | null): string {
  const pathPattern = fields?.pathPattern
  const isEverywhere = typeof pathPattern !== 'string' || pathPattern === '' || pathPattern === EVERY_PATH
  return isEverywhere ? '' : ` where the path matches ${visible(pathPattern)}`
}

function listed(fields: readonly FieldChange[]): string {
  const others = fields.length - MAX_IN_SENTENCE
  const named = (others <= 1 ? fields : fields.slice(0, MAX_IN_SENTENCE)).map(inSentence)
  return new Intl.ListFormat('en-GB').format(others <= 1 ? named : [...named, `${others} more fields`])
}

function inSentence(field: FieldChange): string {
  const { before, after } = field
  if (before === undefined) return `${field.noun} ${cut(after)}`
  return after === undefined ? `${field.noun} ${cut(before)}` : `the ${field.noun} from ${cut(before)} to ${cut(after)}`
}

/** Cuts a value for a sentence. */
export function cut(text = ''): string {
  return shortened(text, MAX_VALUE_LENGTH)
}

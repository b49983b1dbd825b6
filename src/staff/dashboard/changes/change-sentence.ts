/** Says in words what a change did. */
import type { Field } from '../../../ground/field.js'
import { shortened } from '../../../ground/shortened.js'
import { POLICY_SCOPE } from '../../../reports/incidents/incident.js'
import { type Description, defaultsFor, type FieldTable, fieldEntries } from '../../../rules/description.js'
import type { Change, ChangedFields } from '../../../rules/history/history.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import { RULES } from '../../../rules/rule.js'
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
  if (change.entity === 'incident') return { sentence: incidentSentence(change), fields: [] }
  const fields = fieldChanges(change)
  return {
    sentence: change.entity === 'rule' ? ruleSentence(change, fields) : overrideSentence(change, fields),
    fields,
  }
}

function fieldChanges({ entity, before, after }: Described): FieldChange[] {
  const { fields }: Description<FieldTable> = entity === 'rule' ? RULES : OVERRIDES
  const defaults = defaultsFor(fields)
  // A change of before the table had a field says nothing about it.
  const text = (state: ChangedFields | null, name: string, field: Field) =>
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

/** Returns a stored value as it is shown; moments are in milliseconds since the epoch. */
function valueText({ kind }: Pick<Field, 'kind'>, value: unknown): string {
  if (value === null || value === undefined || value === '') return 'none'
  if (kind === 'boolean') return value === true || value === 1 ? 'yes' : 'no'
  // Raw SQL may have written a moment that is no time.
  const isTime = kind === 'moment' && typeof value === 'number' && !Number.isNaN(new Date(value).getTime())
  return isTime ? `${formatTime(value)} UTC` : visible(String(value))
}

function incidentSentence({ name, after }: Described): string {
  const of = `the incident of ${name.startsWith(POLICY_SCOPE) ? `the policy ${visible(name.slice(POLICY_SCOPE.length))}` : visible(name)}`
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

/** Names a field and its former value, as a button or a notice of a revert: `rate back to 5/m`, `the rate 5/m again`. */
export function formerValue(field: FieldChange, form: 'back' | 'again'): string {
  return form === 'back' ? `${field.noun} back to ${cut(field.before)}` : `the ${field.noun} ${cut(field.before)} again`
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

function cut(text = ''): string {
  return shortened(text, MAX_VALUE_LENGTH)
}

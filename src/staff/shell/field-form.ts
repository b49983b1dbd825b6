/** The fields of a form, derived from the description of a table: what is shown, and what was typed. */
import type { FieldErrors } from '../../ground/errors.js'
import type { Choice, Field } from '../../ground/field.js'
import { SECOND_MS } from '../../ground/time/clock.js'
import { parseIsoTime } from '../../ground/time/iso-time.js'
import { visible } from '../../ground/visible.js'
import { readDuration } from '../../limiter/rate-words.js'
import { type FieldTable, fieldEntries, type Values } from '../../rules/description.js'

/** A control of `fields.hbs`. */
export interface FormControl {
  readonly name: string
  readonly title: string
  readonly is_box: boolean
  readonly is_select: boolean
  readonly is_lines: boolean
  readonly is_number: boolean
  readonly is_code: boolean
  readonly value: string
  /** The value in words, for those who may not change it; empty for none. */
  readonly words: string
  readonly checked: boolean
  /** The options of a `select`, or suggestions for a text. */
  readonly options: readonly (Choice & { readonly selected: boolean })[]
  readonly label: string
  readonly example: string
  readonly help: string
  /** A sentence; undefined where the value is right. */
  readonly error: string | undefined
  readonly required: boolean
}

/** The controls below one heading. */
export interface FormGroup {
  readonly title: string | undefined
  readonly controls: readonly FormControl[]
  /** Whether all fields have their defaults, and none is wrong: the form then shows the heading alone. */
  readonly folded: boolean
}

/** Returns the controls of a form, in the order of the groups in which the description has its fields. */
export function formGroups(fields: FieldTable, values: Values, errors: FieldErrors): FormGroup[] {
  const described = fieldEntries(fields)
  const titles = [...new Set(described.map(([, { panel }]) => panel.group))]
  return titles.map((title) => {
    const members = described.filter(([, { panel }]) => panel.group === title)
    return {
      title,
      controls: members.map(([name, field]) => toControl(name, field, values[name], errors[name])),
      folded: members.every(([name, field]) => isDefault(field, values[name]) && errors[name] === undefined),
    }
  })
}

function isDefault(field: Field, value: unknown): boolean {
  return 'default' in field && asText(field.default) === asText(value)
}

function asText(value: unknown): string {
  return value === null || value === undefined ? '' : String(value)
}

function toControl(name: string, field: Field, value: unknown, error: string | undefined): FormControl {
  const { kind, about, help = about, panel } = field
  const { title, input, label = title, options = [] } = panel
  const example = kind === 'moment' ? MOMENT_EXAMPLE : panel.example
  const text = asText(value)
  const shown = kind === 'moment' ? momentText(text) : text
  return {
    name,
    title,
    is_box: kind === 'boolean',
    is_select: input === 'select',
    is_lines: input === 'lines',
    is_number: kind === 'integer',
    is_code: ['code', 'methods', 'key', 'moment', 'expiry'].includes(input),
    value: shown,
    words: visible(
      kind === 'boolean' ? yesOrNo(value) : (options.find((option) => option.value === text)?.label ?? shown),
    ),
    checked: value === true,
    options: options.map((option) => ({ ...option, selected: option.value === text })),
    label,
    example: example ?? '',
    help,
    error: error === undefined ? undefined : errorSentence(error, text, field, example),
    required: !('default' in field),
  }
}

const MOMENT_EXAMPLE = '2h, or 2027-01-31 12:00'
/** A quoted text that is too long to be read: the field has it already. */
const LONG_QUOTATION = /("(?:[^"\\]|\\.){80})(?:[^"\\]|\\.)+"/gsu
/** The longest text: longer ones are written by programs. */
const MAX_TYPED_LENGTH = 300

function yesOrNo(value: unknown): string {
  return value === true ? 'Yes' : 'No'
}

/** Returns a moment as it can be typed: in UTC, without what is zero. */
function momentText(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00|(:\d\d))(?:\.000)?Z$/, '$1 $2$3')
}

/** Returns the message of a field as a sentence that says how to write it. */
function errorSentence(message: string, typed: string, field: Field, example: string | undefined): string {
  // The error of an accepted text is not in how it is written.
  const isAccepted = accepted(field, typed) !== undefined
  const guess = isAccepted || typed.length > MAX_TYPED_LENGTH ? undefined : accepted(field, field.guess?.(typed))
  if (guess !== undefined) return visible(`Write it as ${guess}.`)
  if (typed === '' && !('default' in field))
    return `It is missing${example === undefined ? '' : `: write one such as ${example}`}.`
  const [problem = '', remedy] = message.replace(LONG_QUOTATION, '$1…"').split(/: give |; accepted is /)
  // Messages begin with a verb where the field is their subject.
  const subject = /^(?:is|has|must|was) /.test(problem) ? 'It ' : ''
  const sentence = `${subject}${subject === '' ? problem.charAt(0).toUpperCase() : problem.charAt(0)}${problem.slice(1)}.`
  if (remedy === undefined) return visible(sentence)
  return visible(`${sentence} ${example === undefined || isAccepted ? `Give ${remedy}` : `Write it as ${example}`}.`)
}

/** Returns a text if the field accepts it. */
function accepted(field: Field, text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  try {
    field.parse(text)
    return text
  } catch {
    return undefined
  }
}

/**
 * Reads fields as the validation takes them. Fields that were not sent are left out.
 *
 * @param typed returns the text of a field; undefined where it was not sent
 * @param nowMs the time from which a length such as `2h` counts
 */
export function readFields(
  fields: FieldTable,
  typed: (name: string) => string | undefined,
  nowMs: number,
): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const [name, field] of fieldEntries(fields)) {
    const text = typed(name)
    if (text !== undefined) values[name] = toValue(field, text.replaceAll('\r\n', '\n').trim(), nowMs)
  }
  return values
}

function toValue(field: Field, text: string, nowMs: number): unknown {
  if (field.kind === 'boolean') return text === 'true' || text === 'on'
  if (field.kind === 'moment') return toMoment(text, nowMs)
  if (field.kind === 'integer') return toInteger(field, text)
  if (field.tidy === undefined || text.length > MAX_TYPED_LENGTH) return text
  return accepted(field, text) ?? accepted(field, field.tidy(text)) ?? text
}

function toInteger(field: Field, text: string): unknown {
  const digits = text.replace(/[\s_']/g, '')
  if (digits === '') return field.default
  return /^[+-]?\d{1,15}$/.test(digits) ? Number(digits) : text
}

const WITHOUT_ZONE = /^(\d{4}-\d\d-\d\d)(?:[ T]+(\d\d:\d\d)(:\d\d)?)?$/

/** Returns a time without the milliseconds, which nobody would type again. */
function wholeSeconds(ms: number): number {
  return ms - (ms % SECOND_MS)
}

/** Reads a length from now on, or a moment, which is in UTC unless it names a zone; what is neither stays as it was typed. */
function toMoment(text: string, nowMs: number): string | null {
  if (text === '') return null
  const lengthMs = readDuration(text.replace(/^in /i, ''))
  if (lengthMs !== undefined) return new Date(wholeSeconds(nowMs + lengthMs)).toISOString()
  const whole = text.replace(
    WITHOUT_ZONE,
    (_, day: string, time = '00:00', seconds = ':00') => `${day}T${time}${seconds}Z`,
  )
  return parseIsoTime(whole) === undefined ? text : whole
}

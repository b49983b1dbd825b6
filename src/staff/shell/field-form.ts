/** The fields of a form, derived from the description of a table: what is shown, and what was typed. */
import type { FieldErrors } from '../../ground/errors.js'
import { visible } from '../../ground/visible.js'
import { parseLength } from '../../limiter/rate.js'
import { type Choice, type Field, type FieldTable, fieldEntries, type Values } from '../../rules/description.js'

/** One control of `fields.hbs`. */
export interface FormControl {
  readonly name: string
  readonly title: string
  readonly is_box: boolean
  readonly is_select: boolean
  readonly is_lines: boolean
  readonly is_number: boolean
  readonly is_code: boolean
  readonly value: string
  readonly checked: boolean
  /** Of a `select`, or suggestions for a text. */
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
}

/** Returns the controls of a form, in the order of the groups in which the description has its fields. */
export function formGroups(fields: FieldTable, values: Values, errors: FieldErrors): FormGroup[] {
  const described = fieldEntries(fields)
  const titles = [...new Set(described.map(([, { panel }]) => panel.group))]
  return titles.map((title) => ({
    title,
    controls: described
      .filter(([, { panel }]) => panel.group === title)
      .map(([name, field]) => toControl(name, field, values[name], errors[name])),
  }))
}

function toControl(name: string, field: Field, value: unknown, error: string | undefined): FormControl {
  const { kind, about, help = about, panel } = field
  const { title, input, label = title, example = '', options = [] } = panel
  const text = value === null || value === undefined ? '' : String(value)
  return {
    name,
    title,
    is_box: kind === 'boolean',
    is_select: input === 'select',
    is_lines: input === 'lines',
    is_number: kind === 'integer',
    is_code: ['code', 'methods', 'key', 'moment', 'expiry'].includes(input),
    value: kind === 'moment' ? momentText(text) : text,
    checked: value === true,
    options: options.map((option) => ({ ...option, selected: option.value === text })),
    label,
    example: kind === 'moment' ? MOMENT_EXAMPLE : example,
    help,
    error: error === undefined ? undefined : errorSentence(error, kind === 'moment' ? MOMENT_EXAMPLE : example),
    required: !('default' in field),
  }
}

const MOMENT_EXAMPLE = '2h'

/** Returns a moment as it can be typed: in UTC, without what is zero. */
function momentText(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00(?:\.000)?)?Z$/, '$1 $2')
}

/** Returns the message of a field as a sentence that says how to write it. */
function errorSentence(message: string, example: string): string {
  const [problem = '', remedy] = message.split(': give ')
  const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}.`
  if (remedy === undefined) return visible(sentence)
  return visible(example === '' ? `${sentence} Give ${remedy}.` : `${sentence} Write it as ${example}.`)
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
  if (field.kind === 'integer') return /^[+-]?\d{1,15}$/.test(text) ? Number(text) : text === '' ? field.default : text
  return text
}

const WITHOUT_ZONE = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?$/

/** Reads a length from now on, or a moment, which is in UTC unless it names a zone. */
function toMoment(text: string, nowMs: number): string | null {
  if (text === '') return null
  const lengthMs = parseLength(text.replace(/\s/g, '').toLowerCase())
  if (lengthMs !== undefined) return new Date(nowMs + lengthMs).toISOString()
  return text.replace(WITHOUT_ZONE, (_, day: string, time = '00:00', seconds = ':00') => `${day}T${time}${seconds}Z`)
}

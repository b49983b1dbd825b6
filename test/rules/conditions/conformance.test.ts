/**
 * The conformance suite of CEL, as far as conditions have the language: each test becomes a condition, and each that is
 * left out has its reason here.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tests } from '@bufbuild/cel-spec/testdata/conformance.js'
import { compileExpression } from '../../../src/rules/conditions/compile.js'
import { MAX_CONDITION_LENGTH } from '../../../src/rules/conditions/condition.js'
import { TestFacts } from '../../support/condition-facts.js'

/** A value as the suite writes it. */
interface Given {
  readonly int64Value?: string
  readonly doubleValue?: number | string
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly nullValue?: unknown
  readonly listValue?: { readonly values?: readonly Given[] }
  readonly mapValue?: { readonly entries?: readonly { readonly key: Given; readonly value: Given }[] }
  readonly objectValue?: { readonly '@type': string; readonly value?: unknown }
}

interface Original {
  readonly name: string
  readonly expr: string
  readonly value?: Given
  readonly evalError?: unknown
  readonly disableCheck?: boolean
  readonly bindings?: Readonly<Record<string, { readonly value?: Given }>>
}

interface Suite {
  readonly name: string
  readonly suites?: readonly Suite[]
  readonly tests?: readonly { readonly original: Original }[]
}

/** Sections, and what they are about that conditions do not have. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  bindings_ext: 'an extension',
  block_ext: 'an extension',
  encoders_ext: 'an extension',
  macros2: 'an extension',
  math_ext: 'an extension',
  optionals: 'an extension',
  'string_ext/char_at': 'no such function',
  'string_ext/index_of': 'no such function',
  'string_ext/last_index_of': 'no such function',
  'string_ext/replace': 'no such function',
  'string_ext/split': 'no such function',
  'string_ext/substring': 'no such function',
  'string_ext/join': 'no such function',
  'string_ext/quote': 'no such function',
  'string_ext/format': 'no such function',
  dynamic: 'protobufs',
  enums: 'protobufs',
  proto2: 'protobufs',
  proto2_ext: 'protobufs',
  proto3: 'protobufs',
  wrappers: 'protobufs',
  'comparisons/eq_wrapper': 'protobufs',
  'parse/whitespace': 'protobufs',
  'parse/comments': 'protobufs',
  'parse/struct_field_names': 'protobufs',
  'basic/variables': 'names that are not known are refused when a rule is saved',
  'basic/functions': 'functions that are not known are refused when a rule is saved',
  'basic/reserved_const': 'a variable of such a name',
  'parse/receiver_function_names': 'functions that are not known are refused when a rule is saved',
  namespace: 'no namespaces',
  'fields/qualified_identifier_resolution': 'no namespaces',
  type_deductions: 'types of other results than bool, and of protobufs',
  'macros/nested': 'macros do not stand within each other: conditions take linear time',
  'fields/map_has': 'has() of a map that is written out',
  'fields/quoted_map_fields': 'fields in backquotes: brackets do as well',
  'timestamps/timestamp_selectors': 'no such methods',
  'timestamps/timestamp_selectors_tz': 'no such methods',
  'timestamps/timestamp_arithmetic': 'no durations',
  'timestamps/duration_converters': 'no durations',
}

/** What an expression may have that conditions have not. */
const NOT_WRITTEN: readonly RegExp[] = [
  /\d[uU]\b|\buint\b/,
  /\bb['"]|\bbytes\(/i,
  /duration\(/,
  /\btype\(/,
  /TestAllTypes|NestedTestAllTypes|google\.protobuf|\bjson\b/,
]

/** Single tests, and how conditions differ. */
const DIFFERENT: Readonly<Record<string, string>> = {
  not_lt_dyn_int_big_lossy_double: 'an int and a double are compared exactly',
  not_gt_dyn_big_double_int: 'an int and a double are compared exactly',
  lte_dyn_big_double_int: 'an int and a double are compared exactly',
  gte_dyn_int_big_lossy_double: 'an int and a double are compared exactly',
  not_gt_double: 'the parser wants a digit before the point',
  list_empty: 'the type checker refuses a macro of a list that is written out without elements',
  toString_timestamp_nanos: 'timestamps have milliseconds',
}

test('conditions do what the conformance suite of CEL asks, as far as they have the language', (t) => {
  const unused = new Set(Object.keys({ ...LEFT_OUT, ...DIFFERENT }))
  const failed: string[] = []
  let ran = 0

  function run(section: string, original: Original): void {
    const reason = Object.keys(LEFT_OUT).find((path) => `${section}/`.startsWith(`${path}/`))
    const text = toCondition(original)
    const isWritten = !NOT_WRITTEN.some((pattern) => pattern.test(original.expr))
    if (reason !== undefined) unused.delete(reason)
    // Other results cannot be written, and what the type checker refuses is refused when a rule is saved.
    if (reason !== undefined || text === undefined || !isWritten || original.disableCheck) return
    const found = outcome(text, original)
    const expected = original.evalError === undefined ? (original.value?.boolValue ?? true) : 'fails'
    ran++
    if (found === expected) return
    if (!unused.delete(original.name)) failed.push(`${section}/${original.name}: ${text} is ${found}, not ${expected}`)
  }

  function walk({ suites = [], tests = [] }: Suite, path: readonly string[]): void {
    for (const suite of suites) walk(suite, [...path, suite.name])
    for (const { original } of tests) run(path.join('/'), original)
  }

  walk(tests as Suite, [])
  t.diagnostic(`${ran} tests`)
  assert.deepEqual(failed, [])
  assert.deepEqual([...unused], [], 'are left out without need')
  assert.ok(ran > 600)
})

/** Returns the condition that is true where a test passes, or fails as it shall; undefined where it cannot be written. */
function toCondition({ expr, value, evalError, bindings = {} }: Original): string | undefined {
  let text = expr
  for (const name of Object.keys(bindings))
    text = text.replaceAll(new RegExp(`(?<![\\w.'"])${name}\\b`, 'g'), `user.${name}`)
  if (text.length > MAX_CONDITION_LENGTH - 50) return undefined
  if (evalError !== undefined || value === undefined || value.boolValue !== undefined) return text
  const expected = written(value)
  return expected === undefined ? undefined : `(${text}) == ${expected}`
}

function outcome(text: string, { bindings = {} }: Original): unknown {
  const user = Object.fromEntries(Object.entries(bindings).map(([name, { value }]) => [name, toHostValue(value)]))
  try {
    return compileExpression(text).evaluate(new TestFacts({ user }))
  } catch {
    return 'fails'
  }
}

/** Returns a value as it is written in CEL. */
function written(value: Given): string | undefined {
  const { int64Value, doubleValue, stringValue, boolValue, nullValue, listValue, mapValue, objectValue } = value
  if (int64Value !== undefined) return int64Value
  if (doubleValue !== undefined) return writtenDouble(doubleValue)
  if (stringValue !== undefined) return JSON.stringify(stringValue)
  if (boolValue !== undefined) return String(boolValue)
  if (nullValue !== undefined) return 'null'
  if (objectValue?.['@type'].endsWith('/google.protobuf.Timestamp')) return `timestamp('${objectValue.value}')`
  if (listValue !== undefined) {
    const elements = (listValue.values ?? []).map(written)
    return elements.includes(undefined) ? undefined : `[${elements.join(', ')}]`
  }
  if (mapValue === undefined) return undefined
  const entries = (mapValue.entries ?? []).map(({ key, value }) => [written(key), written(value)])
  return entries.flat().includes(undefined) ? undefined : `{${entries.map((entry) => entry.join(': ')).join(', ')}}`
}

function writtenDouble(value: number | string): string {
  if (typeof value === 'string') return `${value.startsWith('-') ? '-1.0' : '1.0'} / 0.0`
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}

/** Returns a value as a host has it. */
function toHostValue(value: Given = {}): unknown {
  const { int64Value, doubleValue, stringValue, boolValue, listValue, mapValue } = value
  if (int64Value !== undefined) return BigInt(int64Value)
  if (doubleValue !== undefined) return Number(doubleValue)
  if (listValue !== undefined) return (listValue.values ?? []).map(toHostValue)
  if (mapValue === undefined) return stringValue ?? boolValue ?? null
  return new Map((mapValue.entries ?? []).map(({ key, value }) => [toHostValue(key), toHostValue(value)]))
}

/** What a registration proves: each of these calls would not compile with schemas of other fields or types. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadAskedReports } from '../../src/plugin/reports.js'
import { report } from '../../src/reports/registration.js'
import type { WindowOptions } from '../../src/reports/report-window.js'

interface Row {
  readonly path: string
  readonly refused: number
  readonly weight?: number
}

interface Options extends WindowOptions {
  readonly path?: string | undefined
}

const register = report<Options, readonly Row[]>()
const read = async () => []
const common = { name: 'listPaths', summary: 'List paths', window: 7, read } as const

test('a registration has a schema of each option and field, of its type', () => {
  const reports = [
    register({
      ...common,
      options: ({ optional }) => ({ path: optional(9, 'The path.') }),
      answer: ({ type, text, count }) => ({ path: text, refused: count, weight: type.Optional(count) }),
    }),
    register({
      ...common,
      // @ts-expect-error the option has no schema
      options: () => ({}),
      // @ts-expect-error so no schema of the answer is inferred
      answer: ({ type, text, count }) => ({ path: text, refused: count, weight: type.Optional(count) }),
    }),
    register({
      ...common,
      // @ts-expect-error the schema of the option has another type
      options: ({ type }) => ({ path: type.Optional(type.Integer()) }),
      answer: ({ type, text, count }) => ({ path: text, refused: count, weight: type.Optional(count) }),
    }),
    register({
      ...common,
      options: ({ optional }) => ({ path: optional(9, 'The path.') }),
      // @ts-expect-error an optional field has no schema
      answer: ({ text, count }) => ({ path: text, refused: count }),
    }),
    register({
      ...common,
      options: ({ optional }) => ({ path: optional(9, 'The path.') }),
      // @ts-expect-error the schema of a field has another type
      answer: ({ type, text, count }) => ({ path: text, refused: text, weight: type.Optional(count) }),
    }),
    register({
      ...common,
      options: ({ optional }) => ({ path: optional(9, 'The path.') }),
      // @ts-expect-error so no schema of the answer is inferred
      answer: ({ type, text, count }) => ({ path: text, refused: count, weight: type.Optional(count) }),
      // @ts-expect-error a column is no field
      columns: ['client'],
    }),
  ]

  for (const create of reports) assert.throws(() => create({ days: 0 }), /Option "days" is 0/)
})

test('each report that tools ask for has a name of its own', async () => {
  const names = (await loadAskedReports()).map(({ name }) => name)

  assert.ok(names.includes('listRuleHits'))
  assert.deepEqual([...new Set(names)], names)
})

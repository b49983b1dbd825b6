/** The text of a document, which anybody who may compare one has written. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RuleDocumentError } from '../../../src/ground/errors.js'
import { parseDocument } from '../../../src/rules/exchange/parse-document.js'
import { fc } from '../../support/properties.js'

/** Blanks that make any document a long one. */
const PADDING = '\n'.repeat(70_000)

/** Returns the value of a text, or the name of the error. */
async function outcomeOf(parse: () => unknown): Promise<unknown> {
  try {
    return { value: await parse() }
  } catch (error) {
    return error instanceof SyntaxError ? 'no JSON' : error
  }
}

/** Returns the message of the only error of a text that exceeds a bound. */
async function exceeded(text: string): Promise<string> {
  const error = await parseDocument(text).catch((error: unknown) => error)
  assert.ok(error instanceof RuleDocumentError, String(error))
  return Object.entries(error.errors)
    .map((entry) => entry.join(' '))
    .join()
}

const documents = fc.dictionary(
  fc.oneof(fc.constantFrom('version', 'rules', 'overrides', '$schema', '__proto__'), fc.string()),
  fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue())),
)

test('a long document is read as JSON.parse reads it', async () => {
  await fc.assert(
    fc.asyncProperty(documents, fc.constantFrom(0, 1, 3), async (document, indent) => {
      const text = PADDING + JSON.stringify(document, null, indent)
      assert.deepEqual(await parseDocument(text), JSON.parse(text))
    }),
  )
})

test('what is no JSON is none of a long document either', async () => {
  const text = '{"version":1,"rules":[{"name":"a\\"]b"},{}],"overrides":[]}'
  const broken = [...text].flatMap((_, index) => [
    text.slice(0, index),
    text.slice(0, index) + text.slice(index + 1),
    ...[',', ':', '"', ']', '}', '[', '{', '1', '\\'].map((added) => text.slice(0, index) + added + text.slice(index)),
  ])
  let refused = 0
  for (const each of broken) {
    if (!each.startsWith('{')) continue
    const padded = PADDING + each
    const expected = await outcomeOf(() => JSON.parse(padded))
    assert.deepEqual(await outcomeOf(() => parseDocument(padded)), expected, each)
    if (expected === 'no JSON') refused++
  }
  assert.ok(refused > 100)
})

test('a text that exceeds a bound is not read to its end, and the error has the bound', async () => {
  const long = 'x'.repeat(70_000)
  for (const [text, message] of [
    ['['.repeat(2_000_000), 'document must be an object'],
    [PADDING, 'document must be an object'],
    [`{"version":${'['.repeat(2_000_000)}`, 'version is longer than 65536 characters'],
    [`{"version":1,"rules":[{},${'[{"a":'.repeat(2_000_000)}`, 'rules[1] is longer than 65536 characters'],
    [`{"overrides":["${long}"]}`, 'overrides[0] is longer than 65536 characters'],
    [`{"${long}":1}`, 'document is longer than 65536 characters'],
    [`{${Array.from({ length: 300_000 }, (_, index) => `"k${index}":1`).join()}}`, 'document has more than 200 fields'],
    [`{"rules":[${'{},'.repeat(600_000)}{}]}`, 'rules has more than 500000 entries'],
  ] as const) {
    assert.equal(await exceeded(text), message)
  }
})

test('other work goes on while a long document is read', async () => {
  for (const text of [
    `{"version":1,"rules":[${'{"name":"a","pathPattern":"^/a","rate":"5/m"},'.repeat(100_000)}{}]}`,
    `{"version":1,"rules":[]${' '.repeat(30_000_000)}}`,
    `{${'"version":1,'.repeat(300_000)}"rules":[]}`,
  ]) {
    let turns = 0
    let isOver = false
    const count = () => {
      turns++
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    await parseDocument(text)
    isOver = true
    assert.ok(turns > 2, `the event loop turned ${turns} times`)
  }
})

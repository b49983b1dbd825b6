import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { fc } from './support/properties.js'

const LONG = 'x'.repeat(5_000)

test('a failed property prints less than a kilobyte, with what repeats it', async () => {
  const histories = fc.array(fc.constant(LONG), { minLength: 20 })
  const refuted = fc.asyncProperty(histories, async (history) =>
    assert.deepEqual(history, [], `wrong: ${history}, end`),
  )

  await assert.rejects(fc.assert(refuted, { seed: 7, numRuns: 3 }), (error) => {
    const printed = inspect(error)
    assert.ok(Buffer.byteLength(printed) < 1_000, printed)
    assert.match(printed, /seed: 7, path: "0.*"/)
    assert.match(printed, /^Counterexample: .*\nwrong: x+ … [\s\S]*\n\s+at .*properties\.test/m)
    return true
  })
})

test('a property that no value was fit for fails', () => {
  const unfit = fc.property(fc.integer(), () => fc.pre(false))
  assert.throws(() => fc.assert(unfit), /Failed to run property, too many pre-condition failures/)
})

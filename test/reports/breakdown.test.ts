import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareBytes } from '../../src/reports/breakdown.js'
import { fc } from '../support/properties.js'

test('names are compared as their bytes in UTF-8 are', () => {
  // Characters below and above the surrogates, and beyond U+FFFF.
  const name = fc.string({
    unit: fc.constantFrom('a', 'b', 'é', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}'),
  })
  fc.assert(
    fc.property(name, name, (one, other) => {
      assert.equal(Math.sign(compareBytes(one, other)), Buffer.compare(Buffer.from(one), Buffer.from(other)))
    }),
  )
})

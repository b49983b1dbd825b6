import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RuleValidationError } from '../../../src/ground/errors.js'
import { parseOverride } from '../../../src/rules/overrides/override.js'

test('an override whose expiry raw SQL made invalid says so, with all other errors', () => {
  const row = { client: 'user:7', effect: 'ban', algorithm: 'fixed_window', pathPattern: '', expiresAt: Number.NaN }
  assert.throws(
    () => parseOverride(row),
    (error) => {
      assert.ok(error instanceof RuleValidationError)
      assert.match(
        error.message,
        /^Invalid override: effect: "ban" is not a valid effect: .*; expiresAt: is not a valid moment: give /,
      )
      return Object.keys(error.errors).length === 2
    },
  )
  assert.throws(() => parseOverride({ ...row, effect: 'deny' }), /Invalid override: expiresAt: is not a valid moment/)
})

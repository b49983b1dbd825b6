import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { validateRouter } from '../../src/http/host-app.js'

test('a router before find-my-way 9.9 is refused with the remedy, and the one that is installed is not', () => {
  for (const version of ['8.2.2', '9.6.0', '9.8.10']) {
    assert.throws(
      () => validateRouter(version),
      (error) =>
        error instanceof InvalidSettingError &&
        error.message.includes(`${version} reads`) &&
        /npm update find-my-way.*"overrides": \{ "find-my-way": "\^9\.9\.0" \}/.test(error.message),
    )
  }
  for (const version of ['9.9.0', '9.10.1', '10.0.0', undefined]) validateRouter(version)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseIsoTime } from '../../../src/ground/time/iso-time.js'

const AT_MS = Date.UTC(2026, 10, 24, 14)

test('a text names a moment with or without a zone, seconds and a T', () => {
  for (const text of ['2026-11-24T14:00Z', '2026-11-24 14:00:00z', '2026-11-24T15:00+01:00', '2026-11-24 08:30-0530']) {
    assert.deepEqual(parseIsoTime(text), { ms: AT_MS, hasZone: true }, text)
  }
  for (const text of ['2026-11-24T14:00', '2026-11-24 14:00:00.000']) {
    assert.deepEqual(parseIsoTime(text), { ms: AT_MS, hasZone: false }, text)
  }
  assert.deepEqual(parseIsoTime('2026-11-24'), { ms: Date.UTC(2026, 10, 24), hasZone: false })
  assert.deepEqual(parseIsoTime('2026-11-24T14:00:05.2509Z'), { ms: AT_MS + 5_250, hasZone: true })
})

test('a day or a time that no clock shows is none', () => {
  const wrong = [
    '',
    'now',
    '2026-02-31T00:00Z',
    '2026-13-01',
    '2026-11-24T24:00Z',
    '2026-11-24T14:60Z',
    '2026-11-24T14',
    '26-11-24T14:00Z',
    '+275760-09-13T00:00Z',
    '2026-11-24T14:00 CET',
    '1764000000000',
    ' 2026-11-24',
  ]
  for (const text of wrong) assert.equal(parseIsoTime(text), undefined, text)
})

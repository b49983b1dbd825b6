/** Files about addresses that cannot be read for a while. */
import assert from 'node:assert/strict'
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { countries } from '../../scripts/bench/mmdb.js'
import { openGeoFiles } from '../../src/operations/geo/geo-files.js'
import { atEnd } from '../support/at-end.js'

const CLIENT = '203.0.113.7'

test('a file that gets its permission after it was moved into place is read', {
  skip: process.platform === 'win32' && 'modes mean nothing on Windows',
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-geo-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  await chmod(folder, 0o755)
  const country = join(folder, 'country.mmdb')
  await writeFile(country, countries({ '203.0.113.0/24': 'DE' }))
  const lines: string[] = []
  const note = (details: object | string, message = '') => lines.push(`${message} ${JSON.stringify(details)}`)
  const files = await openGeoFiles({ country, asn: undefined }, { error: note, info: note })

  await writeFile(`${country}.new`, countries({ '203.0.113.0/24': 'AT' }), { mode: 0o000 })
  await rename(`${country}.new`, country)
  // Root may read every file.
  const isRoot = process.getuid?.() === 0
  if (isRoot) process.seteuid?.('nobody')
  try {
    for (let times = 0; times < 4; times++) await files.inspect()
  } finally {
    if (isRoot) process.seteuid?.(0)
  }
  assert.equal(files.country(CLIENT), 'DE')
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', /EACCES/)
  assert.match(files.files()[0]?.problem ?? '', /EACCES/)

  await chmod(country, 0o644)
  await files.inspect()
  assert.equal(files.country(CLIENT), 'AT')
  assert.equal(files.files()[0]?.problem, undefined)
  assert.match(lines[1] ?? '', /can read the file of "geo.country" again/)
})

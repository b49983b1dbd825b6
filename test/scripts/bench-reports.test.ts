import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { long } from '../support/long.js'
import { runScript, startScript } from '../support/scripts.js'

describe('npm run bench:reports', () => {
  test('measures every report, and the page by filter and while events are written', long(), async () => {
    const args = ['--sizes', '3000', '--databases', 'sqlite', '--distributions', 'skewed', '--runs', '2']
    const { status, stdout, stderr } = await runScript('bench/reports', args)
    assert.equal(status, 0, stderr)
    assert.match(stdout, /^\| sqlite, skewed \| 3,000 \|( [\d.]+ \/ [\d.]+ \|){17} [\d.]+ \|$/m)
  })

  test('a wrong size or database is wrong usage', long(), async () => {
    const size = await runScript('bench/reports', ['--sizes', 'many'])
    assert.deepEqual([size.status, size.stdout], [2, ''])
    assert.match(size.stderr, /--sizes <list>' argument 'many' is invalid\. Give whole numbers/)
    const database = await runScript('bench/reports', ['--databases', 'mysql'])
    assert.deepEqual([database.status, database.stdout], [2, ''])
    assert.match(database.stderr, /--databases <list>' argument 'mysql' is invalid\. Give sqlite, postgresql or both/)
  })

  test(
    'leaves nothing behind when it is interrupted',
    long(process.platform === 'win32' && 'Windows ends a process without telling it'),
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'bench-test-'))
      try {
        const args = ['--sizes', '2000,100000000', '--databases', 'sqlite', '--runs', '1']
        const child = startScript('bench/reports', args, { env: { TMPDIR: folder } })
        const stderr = text(child.stderr)
        await once(child.stderr, 'data')
        child.kill('SIGINT')
        await once(child, 'close')
        assert.equal(child.exitCode, 130)
        assert.match(await stderr, /bench:reports: interrupted\n$/)
        const left = await readdir(folder)
        assert.deepEqual(
          left.filter((name) => name.startsWith('ratelimit-bench-')),
          [],
        )
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )
})

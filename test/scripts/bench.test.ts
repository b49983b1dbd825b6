import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { jsonReport, markdownTable, summarize } from '../../scripts/bench/report.js'
import { ROWS } from '../../scripts/bench/rows.js'
import { runScript } from '../support/scripts.js'

const [bare, memory] = ROWS
assert.ok(bare !== undefined && memory !== undefined)

function measured(requestsPerSecond: number, p50Ms: number, p99Ms: number, failures = 0) {
  return { requestsPerSecond, p50Ms, p99Ms, failures }
}

describe('the benchmark', () => {
  test('reports the medians of the rounds, and their ratio to bare Fastify', () => {
    const results = [
      summarize(bare, [measured(50_000, 1, 9), measured(10_000, 5, 3), measured(40_000, 2, 4)]),
      summarize(memory, [measured(30_000, 2, 5, 1), measured(34_000, 3, 6, 2)]),
    ]
    assert.deepEqual(markdownTable(results), [
      '| Server | requests/s | p50 | p99 | ratio to bare |',
      '|---|---:|---:|---:|---:|',
      '| bare Fastify | 40,000 | 2.0 ms | 4.0 ms | 1.00 |',
      '| fastify-smart-ratelimit, memory | 32,000 | 2.5 ms | 5.5 ms | 0.80 |',
    ])
    const { rows } = JSON.parse(JSON.stringify(jsonReport(results, 3, 6)))
    assert.deepEqual(rows[1], {
      id: 'memory',
      title: 'fastify-smart-ratelimit, memory',
      requests_per_second: 32_000,
      p50_ms: 2.5,
      p99_ms: 5.5,
      ratio: 0.8,
      failures: 3,
    })
  })

  test('loads a server and finds no failed request', async () => {
    const { status, stdout, stderr } = await runScript('bench/run.ts', [
      '--only',
      'memory',
      '--rounds',
      '1',
      '--seconds',
      '1',
      '--json',
    ])
    assert.equal(status, 0, stderr)
    const { rows } = JSON.parse(stdout)
    assert.equal(rows.length, 1)
    assert.ok(rows[0].requests_per_second > 0)
    assert.ok(rows[0].p50_ms <= rows[0].p99_ms)
    assert.deepEqual([rows[0].ratio, rows[0].failures], [null, 0])
  })

  test('an unknown row is wrong usage', async () => {
    const { status, stdout, stderr } = await runScript('bench/run.ts', ['--only', 'bare,memry'])
    assert.deepEqual([status, stdout], [2, ''])
    assert.equal(stderr, 'bench: --only is "memry": did you mean "memory"?\n')
  })
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { barChart } from '../../scripts/bench/chart.js'
import { type Measurement, measurementOf } from '../../scripts/bench/measurement.js'
import { memoryTable } from '../../scripts/bench/memory.js'
import { pictureOf } from '../../scripts/bench/picture.js'
import { jsonReport, markdownTable } from '../../scripts/bench/report.js'
import { summarize } from '../../scripts/bench/results.js'
import type { Row } from '../../scripts/bench/row.js'
import { chooseRows, ROWS } from '../../scripts/bench/rows.js'
import { targetsOf } from '../../scripts/bench/targets.js'
import { isWrkInstalled, parseWrkResult } from '../../scripts/bench/wrk-load.js'
import { runScript, startScript } from '../support/scripts.js'

const CONDITIONS = { load: 'wrk', rounds: 3, seconds: 6 }
const WRK_LINE =
  'bench {"requests":90000,"microseconds":3000000,"p50":1500.000,"p99":9250.000,"status":81000,"connect":1,"read":2,"write":3,"timeout":4}'

function rowNamed(id: string): Row {
  const row = ROWS.find((candidate) => candidate.id === id)
  assert.ok(row !== undefined, id)
  return row
}

function measured(requestsPerSecond: number, p50Ms: number, p99Ms: number, failures = 0): Measurement {
  return { requestsPerSecond, p50Ms, p99Ms, failures }
}

function result(id: string, requestsPerSecond: number, p99Ms = 5) {
  return summarize(rowNamed(id), [measured(requestsPerSecond, 1, p99Ms)])
}

describe('the report of the benchmark', () => {
  const logging = { ...measured(16_000, 4, 8), events: { recorded: 1_000, dropped: 0, buffered: 7 } }
  const results = [
    summarize(rowNamed('bare'), [measured(50_000, 1, 9), measured(10_000, 5, 3), measured(40_000, 2, 4)]),
    summarize(rowNamed('ours-sqlite'), [measured(30_000, 2, 5, 1), measured(34_000, 3, 6, 2)]),
    summarize(rowNamed('ours-sqlite-events'), [logging, logging]),
  ]

  test('shows the medians of the rounds, and their ratios', () => {
    assert.deepEqual(markdownTable(results), [
      '| Server | requests/s | p50 | p99 | ratio to bare | of the same without events |',
      '|---|---:|---:|---:|---:|---|',
      '| bare Fastify | 40,000 | 2.0 ms | 4.0 ms | 1.00 |  |',
      '| fastify-smart-ratelimit, SQLite | 32,000 | 2.5 ms | 5.5 ms | 0.80 |  |',
      '| fastify-smart-ratelimit, SQLite + events | 16,000 | 4.0 ms | 8.0 ms | 0.40 | 0.50, no event dropped |',
    ])
    const { rows, targets, load } = JSON.parse(JSON.stringify(jsonReport(results, CONDITIONS)))
    assert.equal(load, 'wrk')
    assert.deepEqual(rows[1], {
      id: 'ours-sqlite',
      title: 'fastify-smart-ratelimit, SQLite',
      requests_per_second: 32_000,
      p50_ms: 2.5,
      p99_ms: 5.5,
      ratio: 0.8,
      ratio_to: 'bare',
      ratio_without_events: null,
      failures: 3,
      events: null,
    })
    assert.deepEqual(rows[2].events, { recorded: 2_000, dropped: 0, buffered: 14 })
    assert.deepEqual(targets, [
      { title: 'requests/s: events / no events, SQLite', ratio: 0.5 },
      { title: 'p99: the worst of fastify-smart-ratelimit (ours-sqlite-events) / bare', ratio: 2 },
    ])
  })

  test('says aloud which row lost events', () => {
    const events = { recorded: 1_000, dropped: 250, buffered: 0 }
    const lossy = summarize(rowNamed('ours-sqlite-events'), [{ ...measured(20_000, 1, 1), events }])
    assert.match(markdownTable([lossy]).join('\n'), /\| 25\.0 % of the events DROPPED \|$/)
  })

  test('compares what refuses with a bare server that refuses, and latencies likewise', () => {
    const refusing = [result('bare', 100), result('bare-refused', 50, 10), result('ours-memory-refused', 25, 15)]
    assert.match(markdownTable(refusing).join('\n'), /memory, 90 % refused \| 25 \| .* \| 0\.50 \|/)
    assert.deepEqual(targetsOf(refusing), [
      { title: 'p99: the worst of fastify-smart-ratelimit (ours-memory-refused) / bare', ratio: 1.5 },
    ])
  })

  test('leaves a ratio out when the other row was not measured', () => {
    const alone = [result('ours-postgresql', 100)]
    assert.match(markdownTable(alone).join('\n'), /\| 5\.0 ms \| {2}\| {2}\|$/)
    assert.deepEqual(targetsOf(alone), [])
    assert.match(pictureOf(alone), /<desc id="description"><\/desc>/)
  })
})

describe('the picture of the benchmark', () => {
  test('shows every limiter and says the same in words', () => {
    const svg = pictureOf([result('bare', 100), result('ours-memory', 80), result('fastify-rate-limit-memory', 75)])
    assert.match(
      svg,
      /<desc id="description">fastify-smart-ratelimit, memory: 0\.80; @fastify\/rate-limit, memory: 0\.75<\/desc>/,
    )
    assert.deepEqual(svg.match(/class="(?:ours|other)"/g), ['class="ours"', 'class="other"'])
    assert.match(svg, /prefers-color-scheme: dark/)
  })

  test('fits a ratio above 1, and escapes what XML would obey', () => {
    const svg = barChart('a < b & c', [{ label: '<script>', ratio: 2, isOurs: true }])
    const [, x = '', width = ''] = /class="ours" x="(\d+)" y="\d+" width="([\d.]+)"/.exec(svg) ?? []
    const [, total = ''] = /viewBox="0 0 (\d+) /.exec(svg) ?? []
    assert.ok(Number(x) + Number(width) < Number(total))
    assert.ok(svg.includes('a &lt; b &amp; c') && svg.includes('&lt;script&gt;') && !svg.includes('<script>'))
  })
})

describe('what wrk says', () => {
  test('is read from the line that the Lua script writes', () => {
    assert.deepEqual(parseWrkResult(`Running 3s test @ http://127.0.0.1:1\n${WRK_LINE}\n`), {
      requestsPerSecond: 30_000,
      p50Ms: 1.5,
      p99Ms: 9.25,
      answers: 90_000,
      refusals: 81_000,
      socketErrors: 10,
    })
  })

  for (const [what, stdout] of [
    ['nothing', ''],
    ['only its own text', 'Requests/sec:  64000.12\n'],
    ['no answer at all', WRK_LINE.replace('90000', '0')],
    ['less than all fields', WRK_LINE.replace(',"timeout":4', '')],
    ['what is no number', WRK_LINE.replace('1500.000', 'null')],
  ]) {
    test(`is an error when it is ${what}`, () => {
      assert.throws(() => parseWrkResult(`${stdout}`), /^Error: wrk ended without a result/)
    })
  }
})

describe('one measurement', () => {
  const answered = { requestsPerSecond: 100, p50Ms: 1, p99Ms: 2, answers: 1_000, refusals: 0, socketErrors: 0 }

  test('has failed requests when a row that allows all refuses some, or when sockets fail', () => {
    const row = rowNamed('ours-memory')
    assert.equal(measurementOf(row, answered, undefined).failures, 0)
    assert.equal(measurementOf(row, { ...answered, refusals: 2, socketErrors: 3 }, undefined).failures, 5)
  })

  test('of a row that refuses is wrong unless about 90 % were refused', () => {
    const row = rowNamed('ours-memory-refused')
    const many = { ...answered, answers: 100_000 }
    assert.equal(measurementOf(row, { ...many, refusals: 89_300, socketErrors: 1 }, undefined).failures, 1)
    assert.throws(() => measurementOf(row, { ...many, refusals: 80_000 }, undefined), /refused 80\.0 %/)
    assert.throws(() => measurementOf(row, { ...many, refusals: 100_000 }, undefined), /refused 100\.0 %/)
  })

  test('of a row that refuses is right where few requests were made, most of them the first of a client', () => {
    const row = rowNamed('ours-memory-refused')
    assert.equal(measurementOf(row, { ...answered, answers: 5_000, refusals: 3_600 }, undefined).failures, 0)
  })
})

test('--only takes names of rows, and parts of names', () => {
  const ids = (only: string) => chooseRows(only).map(({ id }) => id)
  assert.deepEqual(ids('ours-memory,bare'), ['bare', 'ours-memory'])
  assert.deepEqual(ids('refused'), [
    'bare-refused',
    'ours-memory-refused',
    'ours-postgresql-refused',
    'ours-redis-refused',
  ])
  assert.deepEqual(ids('prisma, events'), [
    'ours-sqlite-events',
    'ours-postgresql-events',
    'rate-limiter-flexible-prisma',
  ])
})

test('the memory table shows bytes per key, and that the heap stays bounded', () => {
  const row = {
    algorithm: 'fixed_window' as const,
    keys_seen: 1_000_000,
    keys_kept: 100_000,
    bytes_per_key: 150,
    heap_growth: [15_000_000, 20_000_000, 16_000_000],
    microseconds_per_new_key: 1.5,
  }
  assert.equal(
    memoryTable([row]).at(-1),
    '| fixed_window | 1,000,000 | 100,000 | 150 | 15.0 MB | 20.0 MB | 16.0 MB | 1.5 µs |',
  )
})

describe('npm run bench', () => {
  const FLAGS = ['--rounds', '1', '--seconds', '1', '--json']

  test('loads servers and finds no failed request', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bench-test-'))
    try {
      const svg = join(folder, 'ratios.svg')
      const { status, stdout, stderr } = await runScript('bench/run', [
        ...['--only', 'ours-memory-refused,ours-sqlite-events', '--svg', svg],
        ...FLAGS,
      ])
      assert.equal(status, 0, stderr)
      const report = JSON.parse(stdout)
      assert.equal(report.load, isWrkInstalled() ? 'wrk' : 'autocannon')
      const [events, refused] = report.rows
      assert.ok(events.requests_per_second > 0 && events.p50_ms <= events.p99_ms)
      assert.ok(events.events.recorded > 0)
      assert.deepEqual([events.failures, refused.failures], [0, 0])
      assert.match(await readFile(svg, 'utf8'), /<svg /)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('loads servers with autocannon where wrk is not installed', async () => {
    const options = { env: { PATH: '' } }
    const { status, stdout, stderr } = await runScript('bench/run', ['--only', 'ours-rules-1-new', ...FLAGS], options)
    assert.equal(status, 0, stderr)
    const { load, rows } = JSON.parse(stdout)
    assert.deepEqual([load, rows[0].failures], ['autocannon', 0])
  })

  test('leaves nothing behind when it is interrupted', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bench-test-'))
    try {
      const child = startScript('bench/run', ['--only', 'ours-sqlite', '--seconds', '60'], {
        env: { TMPDIR: folder },
      })
      const stderr = text(child.stderr)
      await once(child.stderr, 'data')
      child.kill('SIGINT')
      await once(child, 'close')
      assert.equal(child.exitCode, 130)
      assert.match(await stderr, /bench: interrupted\n$/)
      const left = await readdir(folder)
      assert.deepEqual(
        left.filter((name) => name.startsWith('ratelimit-bench-')),
        [],
      )
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  test('says which rows it skips when their server does not answer', async () => {
    const { status, stderr } = await runScript(
      'bench/run',
      ['--only', 'ours-postgresql,fastify-rate-limit-redis', '--rounds', '1', '--seconds', '1'],
      { env: { TEST_POSTGRES_URL: 'postgresql://nobody@127.0.0.1:1/none', TEST_REDIS_URL: 'redis://127.0.0.1:1' } },
    )
    assert.equal(status, 0, stderr)
    assert.equal(
      stderr,
      'SKIPPED, since no PostgreSQL server answers at TEST_POSTGRES_URL: ours-postgresql\n' +
        'SKIPPED, since no Redis server answers at TEST_REDIS_URL: fastify-rate-limit-redis\n',
    )
  })

  test('an unknown row is wrong usage', async () => {
    const { status, stdout, stderr } = await runScript('bench/run', ['--only', 'bare,memry'])
    assert.deepEqual([status, stdout], [2, ''])
    assert.match(
      stderr,
      /^error: option '--only <rows>' argument 'bare,memry' is invalid\. "memry" fits no row\. Give bare, /,
    )
  })
})

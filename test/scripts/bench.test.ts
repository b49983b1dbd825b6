import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import Fastify from 'fastify'
import { runLoad } from '../../scripts/bench/load.js'
import type { Measured } from '../../scripts/bench/measure.js'
import { markdownReport, type RowResult } from '../../scripts/bench/report.js'
import { ROWS } from '../../scripts/bench/rows.js'
import { cpuChart, parseBars } from '../../scripts/docs/cpu-chart.js'
import { long } from '../support/long.js'
import { runScript, startScript } from '../support/scripts.js'

const USUAL: Measured = {
  requestsPerSecond: 100,
  serverCpu: 20,
  databaseCpu: 0,
  p99Ms: 5,
  refusals: 0,
  lostEvents: 0,
}

interface GivenRound extends Partial<Measured> {
  readonly bare?: Partial<Measured>
}

function result(name: string, ...rounds: GivenRound[]): RowResult {
  const row = ROWS.find((candidate) => candidate.name === name)
  assert.ok(row !== undefined, name)
  return { row, rounds: rounds.map((round) => ({ ...USUAL, ...round, bare: { ...USUAL, ...round.bare } })) }
}

function tables(...results: RowResult[]): string {
  return markdownReport(results, { seconds: 4, processes: 1 }).join('\n')
}

describe('the report of the benchmark', () => {
  test('shows medians and a spread, and compares each round with the bare server of its slices', () => {
    const sqlite = result(
      'fastify-smart-ratelimit, SQLite',
      {
        requestsPerSecond: 40_000,
        serverCpu: 27,
        p99Ms: 8,
        bare: { requestsPerSecond: 50_000, serverCpu: 20, p99Ms: 2 },
      },
      {
        requestsPerSecond: 9_000,
        serverCpu: 66,
        p99Ms: 9,
        bare: { requestsPerSecond: 10_000, serverCpu: 60, p99Ms: 9 },
      },
      {
        requestsPerSecond: 30_000,
        serverCpu: 28,
        p99Ms: 6,
        bare: { requestsPerSecond: 40_000, serverCpu: 22, p99Ms: 4 },
      },
    )
    const lines = markdownReport([sqlite], { seconds: 4, processes: 1 })
    assert.match(
      lines[0] ?? '',
      /1 process\(es\), 1 at a time loaded over 64 connections each, 1024 clients; medians of 3 rounds of 4 s, each in turn with as many of bare Fastify\.$/,
    )
    assert.deepEqual(lines.slice(4), [
      '| bare Fastify | 40,000 ± 50 % |  | 22.0 |  | 0.0 | 4.0 ms |',
      '| fastify-smart-ratelimit, SQLite | 30,000 ± 52 % | 0.80 | 28.0 | 6.0 (6.0 to 7.0) | 0.0 | 8.0 ms |',
      '',
      '| Compared | target | ratio | |',
      '|---|--:|--:|---|',
      '| fastify-smart-ratelimit, SQLite / bare Fastify | ≥ 0.8 | 0.80 | reached |',
    ])
  })

  test('compares rows by their shares of the bare servers of their rounds, since these differ', () => {
    const ours = result(
      'fastify-smart-ratelimit, PostgreSQL',
      { requestsPerSecond: 80, bare: { requestsPerSecond: 100 } },
      { requestsPerSecond: 30, bare: { requestsPerSecond: 50 } },
    )
    const peer = result(
      'rate-limiter-flexible, PostgreSQL',
      { requestsPerSecond: 40, bare: { requestsPerSecond: 200 } },
      { requestsPerSecond: 10, bare: { requestsPerSecond: 50 } },
    )
    assert.match(tables(ours, peer), /, PostgreSQL \| ≥ 3 \| 3\.50 \| reached \|$/)
  })

  test('says aloud which row answered wrongly or lost events, and what is unknown', () => {
    assert.match(
      tables(result('fastify-smart-ratelimit, PostgreSQL + events', { lostEvents: 7, databaseCpu: Number.NaN })),
      /PostgreSQL \+ events, 7 EVENTS LOST \| 100 ± 0 % \| 1\.00 \| 20\.0 \| 0\.0 \(0\.0 to 0\.0\) \| \? \|/,
    )
    assert.match(tables(result('rate-limiter-flexible, memory', {}, { refusals: 3 })), /memory, 3 WRONG ANSWERS \|/)
  })

  test('compares with the better of several peers, and with none of which a part is missing', () => {
    const ours = result('fastify-smart-ratelimit, Redis', { requestsPerSecond: 110 })
    const peers = [
      result('@fastify/rate-limit, Redis', { requestsPerSecond: 100 }),
      result('rate-limiter-flexible, Redis', { requestsPerSecond: 50 }),
    ]
    assert.match(tables(ours, ...peers), /, Redis \| ≥ 1\.15 \| 1\.10 \| not reached \|$/)
    assert.doesNotMatch(tables(ours, ...peers.slice(1)), /reached/)
  })

  test('has a picture of each limiter with each store, with the spread, which says the same in words', () => {
    const taking = (...micros: number[]) => micros.map((serverCpu) => ({ serverCpu, bare: { serverCpu: 10 } }))
    const report = tables(
      result('bare Fastify, with three headers', {}),
      result('fastify-smart-ratelimit, Redis', ...taking(30, 33, 31)),
      result('fastify-smart-ratelimit, memory', ...taking(14, 13, 16)),
      result('fastify-smart-ratelimit, SQLite + events', ...taking(50)),
      result('@fastify/rate-limit, memory', ...taking(15)),
    )
    const svg = cpuChart(parseBars(`<!-- benchmarks:begin -->\n${report}\n<!-- benchmarks:end -->`))
    const [, words] = /<desc id="description">(.*)<\/desc>/.exec(svg) ?? []
    assert.deepEqual(words?.split('; '), [
      'fastify-smart-ratelimit, memory: 4.0 (3.0 to 6.0)',
      '@fastify/rate-limit, memory: 5.0',
      'fastify-smart-ratelimit, Redis: 21.0 (20.0 to 23.0)',
    ])
    const [, x = '', width = ''] = /class="ours" x="(\d+)" y="\d+" width="([\d.]+)"/.exec(svg) ?? []
    const [, total = ''] = /viewBox="0 0 (\d+) /.exec(svg) ?? []
    assert.ok(Number(width) > 0 && Number(x) + Number(width) < Number(total))
    assert.match(svg, /class="other"/)
    assert.match(svg, /prefers-color-scheme: dark/)
  })
})

describe('the load of the benchmark', () => {
  test('counts answers and refusals of many clients, who ask all servers for all paths in turn', long(), async () => {
    const apps = [Fastify({ forceCloseConnections: true }), Fastify({ forceCloseConnections: true })]
    const clients = new Set<unknown>()
    const urls: string[] = []
    const ports = new Set<unknown>()
    const origins: string[] = []
    for (const app of apps) {
      app.get('/*', async (request, reply) => {
        clients.add(request.headers['x-client'])
        ports.add(request.socket.localPort)
        urls.push(request.url)
        return reply.code(request.url === '/full' ? 429 : 200).send({ text: 'x'.repeat(100_000) })
      })
      origins.push(await app.listen({ port: 0, host: '127.0.0.1' }))
    }
    const load = await runLoad(origins, ['/full', '/new/*'], 1, new AbortController().signal)
    await Promise.all(apps.map((app) => app.close()))
    assert.equal(ports.size, 2)
    assert.equal(load.answers, urls.length)
    assert.equal(load.refusals, urls.filter((url) => url === '/full').length)
    const others = urls.filter((url) => url.startsWith('/new/'))
    assert.equal(load.refusals + others.length, load.answers)
    assert.equal(new Set(others).size, others.length)
    assert.ok(clients.size >= Math.min(1_024, load.answers))
    assert.ok(load.seconds >= 1 && load.microseconds.percentile(99) > 0)
  })

  test('fails when the server closes a connection', async () => {
    const app = Fastify()
    app.get('/', (request) => void request.socket.end())
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    await assert.rejects(runLoad([origin], ['/'], 5, new AbortController().signal), /has closed a connection/)
    await app.close()
  })
})

describe('npm run bench', () => {
  test(
    'measures servers of several processes with their CPU time, and says which rows it skips since no server answers',
    long(),
    async () => {
      const rows = ['--rows', 'sqlite + events', '@fastify/rate-limit, redis']
      const { status, stdout, stderr } = await runScript(
        'bench/run',
        ['--rounds', '1', '--seconds', '1', '--processes', '2', ...rows],
        {
          env: { TEST_REDIS_URL: 'redis://127.0.0.1:1' },
        },
      )
      assert.equal(status, 0, stderr)
      assert.match(stdout, /; 2 process\(es\), 2 at a time loaded over 64 connections each, /)
      const names = [
        ...stdout.matchAll(
          /^\| (\S.*?) \| [\d,]+ ± 0 % \| [\d.]* \| [\d.]+ \| (?:[-\d.]+ \([-\d.]+ to [-\d.]+\))? \| 0\.0 \| [\d.]+ ms \|$/gm,
        ),
      ]
      assert.deepEqual(
        names.map(([, name]) => name),
        ['bare Fastify', 'fastify-smart-ratelimit, SQLite + events'],
      )
      assert.match(stderr, /^SKIPPED, since no redis server answers: @fastify\/rate-limit, Redis$/m)
    },
  )

  test('prints no table where no server answers that a row needs', long(), async () => {
    const { status, stdout, stderr } = await runScript('bench/run', ['--rows', 'rate-limit, redis'], {
      env: { TEST_REDIS_URL: 'redis://127.0.0.1:1' },
    })
    assert.deepEqual([status, stdout], [0, ''])
    assert.match(stderr, /^SKIPPED, since no redis server answers: @fastify\/rate-limit, Redis\n$/)
  })

  test(
    'leaves nothing behind when it is interrupted',
    long(process.platform === 'win32' && 'Windows ends a process without telling it'),
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'bench-test-'))
      try {
        const child = startScript('bench/run', ['--rows', 'ratelimit, SQLite', '--seconds', '60'], {
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
    },
  )

  test('a name that no row has is wrong usage', async () => {
    const { status, stdout, stderr } = await runScript('bench/run', ['--rows', 'bare', 'memry'])
    assert.deepEqual([status, stdout, stderr], [2, '', 'error: no row has "memry" in its name\n'])
  })
})

test('npm run bench:hook shows nanoseconds of our hook and of the peers', long(), async () => {
  const { status, stdout, stderr } = await runScript('bench/hook', [
    '--rounds',
    '1',
    '--batches',
    '2',
    '--rows',
    'prefixes',
    '@fastify',
  ])
  assert.equal(status, 0, stderr)
  assert.match(
    stdout,
    /^\| Hook \| ns \| least \|\n\|---\|--:\|--:\|\n\| fastify-smart-ratelimit, memory, 20 exempt prefixes \| \d+ \| \d+ \|\n\| @fastify\/rate-limit, memory \| \d+ \| \d+ \|\n$/,
  )
})

/** `npm run bench:reports`: fills the event log, and measures the reports and the dashboard. Prints a Markdown table. */
import { setTimeout as delay } from 'node:timers/promises'
import { Command, InvalidArgumentError } from '@commander-js/extra-typings'
import Fastify from 'fastify'
import { dashboardPlugin } from '../../src/dashboard.js'
import { type Database, databaseFor } from '../../src/database/database.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { createRateLimitClient, rateLimitPlugin } from '../../src/index.js'
import { eventValues, insertEventsSql } from '../../src/log/event.js'
import { foldAll } from '../../src/log/rollups/catch-up.js'
import { incidents } from '../../src/reports/incidents/incidents.js'
import { offenderDetail } from '../../src/reports/offender-detail.js'
import { topOffenders } from '../../src/reports/ranking.js'
import { createReportRunner, type Report } from '../../src/reports/report.js'
import { ruleHitCounts } from '../../src/reports/rule-traffic.js'
import { trafficSummary } from '../../src/reports/traffic.js'
import { integer } from '../commands/support/option-values.js'
import { createProgress } from '../commands/support/progress.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { untilInterrupted } from './interruption.js'
import { Backends, isReachable } from './servers.js'
import { createEvents, DISTRIBUTIONS, type Distribution, fillLog } from './synthetic-log.js'

const DATABASES = ['sqlite', 'postgresql'] as const

const program = new Command('npm run bench:reports --')
  .option(
    '--sizes <list>',
    'how many rows of events, separated by commas',
    parseSizes,
    [100_000, 1_000_000, 10_000_000],
  )
  .option('--databases <list>', 'which databases, separated by commas', parseNames(DATABASES), [...DATABASES])
  .option('--distributions <list>', 'how requests are spread', parseNames(DISTRIBUTIONS), [...DISTRIBUTIONS])
  .option('--weight <int>', 'how many requests a row stands for', integer('weight', 1, 1_000_000), 1)
  .option('--runs <int>', 'how often each report is read', integer('runs', 1, 10_000), 40)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

function parseSizes(text: string): number[] {
  const sizes = text.split(',').map(Number)
  if (sizes.every((size) => Number.isInteger(size) && size >= 1)) return sizes
  throw new InvalidArgumentError('Give whole numbers, separated by commas')
}

function parseNames<Name extends string>(names: readonly Name[]) {
  return (text: string): Name[] =>
    text.split(',').map((typed) => {
      const name = names.find((each) => each === typed)
      if (name !== undefined) return name
      throw new InvalidArgumentError(`Give ${names.join(', ')} or both, separated by commas`)
    })
}

const DAYS = 7
const WRITES_PER_SECOND = 10
const EVENTS_PER_WRITE = 100
/** The most runs before the measurement, in which a page's code is compiled. */
const MAX_WARM_UPS = 20

const REPORTS: Readonly<Record<string, Report<unknown>>> = {
  'traffic summary': trafficSummary({ days: DAYS }),
  'top offenders': topOffenders({ days: DAYS, limit: 20 }),
  'rule hits': ruleHitCounts({ days: DAYS, limit: 20 }),
  'top 1,000 (CSV)': topOffenders({ days: DAYS, limit: 1_000 }),
  incidents: incidents({ days: 1 }),
  'one client': offenderDetail({ key: 'ip:10.0.3.232', days: DAYS }),
  'the busiest client': offenderDetail({ key: 'ip:10.0.0.0', days: DAYS }),
}

/** The page of the dashboard by its filter, or its range; each time another one where it depends on the run. */
const PAGES: Readonly<Record<string, (nowMs: number, run: number) => string>> = {
  'no filter': () => '',
  'a rule': () => '&rule=rule-7',
  'a method': () => '&method=POST',
  'a path prefix': () => '&path=/api/v1/resource-1',
  'a client': () => '&key=ip:10.0.3.232',
  'a day of the past': (nowMs) => range(dayOf(nowMs) - 2 * DAY_MS, DAY_MS),
  'an hour of the past': (nowMs) => range(dayOf(nowMs) - DAY_MS + 14 * HOUR_MS, HOUR_MS),
  'another day each time': (nowMs, run) => range(dayOf(nowMs) - 6 * DAY_MS + run * HOUR_MS, DAY_MS),
  'another hour each time': (nowMs, run) => range(dayOf(nowMs) - 6 * DAY_MS + run * HOUR_MS, HOUR_MS),
}

function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS
}

function range(sinceMs: number, lengthMs: number): string {
  const [since, until] = [sinceMs, sinceMs + lengthMs].map((ms) => new Date(ms).toISOString())
  return `&since=${since}&until=${until}`
}
const WHILE_WRITING = 'no filter, 1,000 events/s'

/** Returns a row of the table: p50 and p95 of each report and page, in milliseconds, and the time to fold one event. */
async function measure(
  backends: Backends,
  provider: (typeof DATABASES)[number],
  events: number,
  distribution: Distribution,
  signal: AbortSignal,
): Promise<string[]> {
  return backends.with({ needs: provider }, async ({ url, name }) => {
    const { weight } = program.opts()
    const client = createRateLimitClient({ database: url, schema: name })
    const database = databaseFor(client)
    const nowMs = Date.now()
    const progress = createProgress()
    await fillLog(database, events, distribution, nowMs, weight, (written) => {
      signal.throwIfAborted()
      progress.show(`${provider}: ${written} of ${events} events`)
    })
    progress.end()
    const startedMs = performance.now()
    await foldAll(database, nowMs, { signal })
    const foldUs = ((performance.now() - startedMs) * 1_000) / events
    // The server would do this later by itself, since real logs are not written within three minutes.
    if (provider === 'postgresql') await client.$executeRawUnsafe('VACUUM ANALYZE')
    warnLine(`${provider}: ${events} events are written; measuring`)
    const read = createReportRunner(database, { now: () => nowMs })
    const app = Fastify({ pluginTimeout: 60_000 })
    await app.register(rateLimitPlugin, { database: client, logEvents: true, middleware: { backend: 'memory' } })
    await app.register(dashboardPlugin, { isStaff: () => true })
    try {
      const timings: string[] = []
      const time = async (work: (run: number) => Promise<unknown>) => {
        signal.throwIfAborted()
        timings.push(await timed(work))
      }
      const openPage = async (parameters: string) => {
        const { statusCode } = await app.inject(`/dashboard/?days=${DAYS}${parameters}`)
        if (statusCode !== 200) throw new Error(`The dashboard answers ${statusCode}`)
      }
      for (const report of Object.values(REPORTS)) await time(() => read(report))
      for (const parametersOf of Object.values(PAGES)) await time((run) => openPage(parametersOf(nowMs, run)))
      await whileWriting(database, distribution, () => time(() => openPage('')))
      return [`${provider}, ${distribution}`, (events * weight).toLocaleString('en-US'), ...timings, foldUs.toFixed(1)]
    } finally {
      await app.close()
      await client.$disconnect()
    }
  })
}

/** Measures work after a warm-up. */
async function timed(work: (run: number) => Promise<unknown>): Promise<string> {
  const { runs } = program.opts()
  const warmUps = Math.min(runs, MAX_WARM_UPS)
  for (let warmUp = 0; warmUp < warmUps; warmUp++) await work(warmUp)
  const tookMs: number[] = []
  for (let run = 0; run < runs; run++) {
    const startedMs = performance.now()
    await work(warmUps + run)
    tookMs.push(performance.now() - startedMs)
  }
  tookMs.sort((one, other) => one - other)
  const rank = (share: number) => tookMs[Math.max(0, Math.ceil(runs * share) - 1)] ?? Number.NaN
  return [rank(0.5), rank(0.95)].map((ms) => ms.toFixed(ms < 10 ? 1 : 0)).join(' / ')
}

/** Does some work while 1,000 events are written per second. */
async function whileWriting(database: Database, distribution: Distribution, work: () => Promise<void>): Promise<void> {
  const makeEvent = createEvents(1, distribution)
  const sql = insertEventsSql(database.dialect)
  let isDone = false
  async function write(): Promise<void> {
    const startedMs = performance.now()
    for (let writes = 1; !isDone; writes++) {
      const rows = Array.from({ length: EVENTS_PER_WRITE }, () => eventValues(makeEvent(Date.now())))
      await database.execute(sql, [JSON.stringify(rows)])
      await delay(Math.max(0, startedMs + (writes * 1_000) / WRITES_PER_SECOND - performance.now()))
    }
  }
  const writing = write()
  await work().finally(() => {
    isDone = true
  })
  await writing
}

async function bench(signal: AbortSignal): Promise<void> {
  const { sizes, databases, distributions } = program.opts()
  const head = ['', 'Events', ...Object.keys(REPORTS), ...Object.keys(PAGES), WHILE_WRITING, 'folding an event, µs']
  const printRow = (cells: readonly string[]) => printLine(`| ${cells.join(' | ')} |`)
  const backends = new Backends()
  try {
    printRow(head)
    printRow(head.map((_, column) => (column === 0 ? '---' : '--:')))
    for (const provider of databases) {
      const isThere = await isReachable(provider)
      if (!isThere) warnLine(`SKIPPED, since no server answers: ${provider}`)
      for (const distribution of isThere ? distributions : []) {
        for (const size of sizes) printRow(await measure(backends, provider, size, distribution, signal))
      }
    }
  } finally {
    await backends.close()
  }
}

await untilInterrupted('bench:reports', bench)

/**
 * `npm run bench:reports`: fills the event log and measures the reports and the dashboard, beside plain queries over the
 * events. Prints Markdown tables, or JSON.
 */

import { Command, InvalidArgumentError, Option } from '@commander-js/extra-typings'
import Fastify from 'fastify'
import { dashboardReport } from '../../../src/analytics/dashboard-report.js'
import type { ReportFilter } from '../../../src/analytics/filter.js'
import { offenderDetail } from '../../../src/analytics/offender-detail.js'
import { topOffenders } from '../../../src/analytics/ranking.js'
import { ruleHitCounts, trafficSummary } from '../../../src/analytics/traffic.js'
import { createReportRunner, type Report } from '../../../src/analytics/window.js'
import { databaseFor } from '../../../src/db/database.js'
import { errorLine } from '../../../src/errors.js'
import { createRateLimitClient, dashboardPlugin, rateLimitPlugin } from '../../../src/index.js'
import { foldAll } from '../../../src/rollups/catch-up.js'
import { integer } from '../../commands/support/option-values.js'
import { createProgress } from '../../commands/support/progress.js'
import { printLine, warnLine } from '../../commands/support/terminal.js'
import { Places } from '../places.js'
import { isPostgresReachable } from '../servers.js'
import { compareInserting, dropRollups, whileWriting } from './inserting.js'
import { PLAIN_REPORTS } from './plain-reports.js'
import { DISTRIBUTIONS, type Distribution, fillLog } from './synthetic-log.js'
import { reportTables } from './tables.js'
import { type Timing, timed } from './timing.js'

type Provider = 'sqlite' | 'postgresql'

const program = new Command('npm run bench:reports --')
  .addOption(
    new Option('--sizes <list>', 'how many events, separated by commas')
      .argParser(parseSizes)
      .default([100_000, 1_000_000, 10_000_000]),
  )
  .addOption(
    new Option('--databases <list>', 'which databases, separated by commas')
      .argParser(parseDatabases)
      .default<Provider[]>(['sqlite', 'postgresql']),
  )
  .addOption(
    new Option('--distributions <list>', 'how requests are spread, separated by commas')
      .argParser(parseDistributions)
      .default<Distribution[]>([...DISTRIBUTIONS]),
  )
  .option('--runs <int>', 'how often each report is read', integer('runs', 1, 10_000), 40)
  .option('--plain-runs <int>', 'how often each plain query is run', integer('runs', 1, 1_000), 3)
  .option('--json', 'print one JSON object instead of text')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

function parseSizes(text: string): number[] {
  const sizes = text.split(',').map(Number)
  if (sizes.every((size) => Number.isInteger(size) && size >= 1)) return sizes
  throw new InvalidArgumentError('Give whole numbers, separated by commas')
}

function parseDatabases(text: string): Provider[] {
  return text.split(',').map((name) => {
    if (name === 'sqlite' || name === 'postgresql') return name
    throw new InvalidArgumentError('Give sqlite, postgresql or both, separated by commas')
  })
}

function parseDistributions(text: string): Distribution[] {
  return text.split(',').map((name) => {
    const distribution = DISTRIBUTIONS.find((each) => each === name)
    if (distribution !== undefined) return distribution
    throw new InvalidArgumentError(`Give ${DISTRIBUTIONS.join(', ')} or both, separated by commas`)
  })
}

const interruption = new AbortController()

const DAYS = 7
/** With the sizes of real measurements: smaller logs take fewer batches. */
const MAX_INSERT_BATCHES = 600

const REPORTS: Readonly<Record<string, Report<unknown>>> = {
  'Traffic summary': trafficSummary({ days: DAYS }),
  'Top offenders': topOffenders({ days: DAYS, limit: 20 }),
  'Rule hits': ruleHitCounts({ days: DAYS, limit: 20 }),
  Dashboard: dashboardReport({ days: DAYS }),
  'Top 1,000 (CSV)': topOffenders({ days: DAYS, limit: 1_000 }),
  'One client': offenderDetail({ key: 'ip:10.0.3.232', days: DAYS }),
  'The busiest client': offenderDetail({ key: 'ip:10.0.0.0', days: DAYS }),
}

const FILTERS: Readonly<Record<string, ReportFilter>> = {
  'no filter': {},
  'a rule': { rule: 'rule-7' },
  'a method': { method: 'POST' },
  'a path prefix': { path: '/api/v1/resource-1' },
  'a client': { key: 'ip:10.0.3.232' },
}

export interface Measured {
  readonly database: string
  readonly events: number
  readonly distribution: Distribution
  /** The time to fold one event, in microseconds. */
  readonly foldUs: number
  readonly reports: Readonly<Record<string, Timing>>
  readonly plain: Readonly<Record<string, Timing>>
  /** The times of the whole page, by filter. */
  readonly pages: Readonly<Record<string, Timing>>
}

interface Conditions {
  readonly runs: number
  readonly plainRuns: number
}

async function measure(
  provider: Provider,
  events: number,
  distribution: Distribution,
  conditions: Conditions,
): Promise<Measured> {
  const places = await Places.open()
  try {
    return await places.with({ needs: provider }, async ({ url, name }) => {
      const client = createRateLimitClient({ database: url, schema: name })
      const database = databaseFor(client)
      const nowMs = Date.now()
      const progress = createProgress()
      await fillLog(database, events, distribution, nowMs, (written) => {
        interruption.signal.throwIfAborted()
        progress.show(`${provider}: ${written} of ${events} events`)
      })
      progress.end()
      const startedMs = performance.now()
      await foldAll(database, nowMs, { signal: interruption.signal })
      const foldUs = ((performance.now() - startedMs) * 1_000) / events
      await settle(provider, client)
      warnLine(`${provider}: ${events} events are written; measuring`)
      const read = createReportRunner(database, { now: () => nowMs })
      const reports = await timeAll(REPORTS, (report) => timed(conditions.runs, () => read(report)))
      const pages = await measurePages(client, distribution, conditions.runs)
      const plain = await timeAll(PLAIN_REPORTS, (report) => timed(conditions.plainRuns, () => read(report)))
      await client.$disconnect()
      warnLine(`${provider}: ${events} events are measured`)
      return { database: provider, events, distribution, foldUs, reports, plain, pages }
    })
  } finally {
    await places.close()
  }
}

/** Runs the maintenance that the database would do later, since real logs are not written within three minutes. */
async function settle(provider: string, client: ReturnType<typeof createRateLimitClient>): Promise<void> {
  if (provider === 'postgresql') await client.$executeRawUnsafe('VACUUM ANALYZE')
}

async function measurePages(
  client: ReturnType<typeof createRateLimitClient>,
  distribution: Distribution,
  runs: number,
): Promise<Record<string, Timing>> {
  const app = Fastify({ pluginTimeout: 60_000 })
  await app.register(rateLimitPlugin, { database: client, logEvents: true, middleware: { backend: 'memory' } })
  await app.register(dashboardPlugin, { isStaff: () => true })
  try {
    const timePage = (filter: ReportFilter) => {
      const query = new URLSearchParams([['days', String(DAYS)], ...Object.entries(filter)])
      return timed(runs, async () => {
        const { statusCode } = await app.inject(`/dashboard/?${query}`)
        if (statusCode !== 200) throw new Error(`The dashboard answers ${statusCode}`)
      })
    }
    const pages = await timeAll(FILTERS, timePage)
    return {
      ...pages,
      'no filter, 1,000 events/s': await whileWriting(databaseFor(client), distribution, () => timePage({})),
    }
  } finally {
    await app.close()
  }
}

async function timeAll<Work>(
  works: Readonly<Record<string, Work>>,
  time: (work: Work) => Promise<Timing>,
): Promise<Record<string, Timing>> {
  const timings: Record<string, Timing> = {}
  for (const [name, work] of Object.entries(works)) {
    interruption.signal.throwIfAborted()
    timings[name] = await time(work)
  }
  return timings
}

/** Measures the cost of an event with rollups as a multiple of the cost without, in logs of this many events. */
async function measureInserting(provider: Provider, events: number): Promise<number> {
  const places = await Places.open()
  try {
    return await places.with({ needs: provider }, (one) =>
      places.with({ needs: provider }, async (other) => {
        const clients = [one, other].map(({ url, name }) => createRateLimitClient({ database: url, schema: name }))
        const databases = clients.map(databaseFor)
        const [withRollups, without] = databases
        if (withRollups === undefined || without === undefined) throw new Error('two databases were made')
        const nowMs = Date.now()
        await without.ready()
        await dropRollups(without)
        for (const database of databases)
          await fillLog(database, events, 'skewed', nowMs, () => interruption.signal.throwIfAborted())
        for (const client of clients) await settle(provider, client)
        const ratio = await compareInserting(
          withRollups,
          without,
          Math.min(MAX_INSERT_BATCHES, Math.ceil(events / 100)),
          nowMs,
        )
        await Promise.all(clients.map((client) => client.$disconnect()))
        return ratio
      }),
    )
  } finally {
    await places.close()
  }
}

async function bench({ sizes, databases, distributions, runs, plainRuns, json } = program.opts()): Promise<void> {
  const measured: Measured[] = []
  const inserting: Record<string, number> = {}
  try {
    for (const provider of await reachable(databases)) {
      for (const distribution of distributions) {
        for (const size of sizes) measured.push(await measure(provider, size, distribution, { runs, plainRuns }))
      }
      // A size that takes a minute.
      inserting[provider] = await measureInserting(provider, Math.min(1_000_000, Math.max(...sizes)))
    }
  } finally {
    // A failure after an hour loses nothing that was measured before it.
    if (json) printLine(JSON.stringify({ measured, inserting }))
    else for (const line of reportTables(measured, inserting)) printLine(line)
  }
}

async function reachable(providers: readonly Provider[]): Promise<readonly Provider[]> {
  if (!providers.includes('postgresql') || (await isPostgresReachable())) return providers
  warnLine('SKIPPED, since no PostgreSQL server answers at TEST_POSTGRES_URL: postgresql')
  return providers.filter((provider) => provider !== 'postgresql')
}

// Stops the current work, which then cleans up; a second signal ends the process at once.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort())
try {
  await bench()
} catch (error) {
  warnLine(`bench:reports: ${interruption.signal.aborted ? 'interrupted' : errorLine(error)}`)
  process.exitCode = interruption.signal.aborted ? 130 : 1
}

/**
 * `npm run bench:hook`: nanoseconds of the hook itself, with counters in memory and without HTTP, beside the peers'.
 * Every call has a request and a reply of its own, made by Fastify, since hooks mark what they have decided.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Command } from '@commander-js/extra-typings'
import Fastify, { type HookHandlerDoneFunction } from 'fastify'
import { integer } from '../commands/support/option-values.js'
import { printLine } from '../commands/support/terminal.js'
import { CLIENT_HEADER } from './load.js'
import { median, messageFrom } from './measure.js'
import { chooseRows, HEADERS_ALONE, OURS, ours, ROWS, type Row, withRules } from './rows.js'
import { type Place, Places } from './servers.js'

/** The size of a batch: its requests stay in the processor's cache, as one does that has just arrived. */
const CALLS = 64
const PATH = '/things/7'

const skipPaths = Array.from({ length: 20 }, (_, index) => `/section-${index}/`)
const rows: readonly Row[] = [
  ...ROWS.filter(({ name }) => name === HEADERS_ALONE),
  ...ROWS.filter(({ name }) => name === `${OURS}, memory`),
  ours('memory, no headers', () => ({ headers: 'none', middleware: { backend: 'memory' } })),
  ours('memory, 20 exempt prefixes', () => ({ middleware: { backend: 'memory', skipPaths } })),
  withRules(100, [PATH], 'a path that repeats'),
  ...ROWS.filter(({ name }) => name.endsWith(', memory') && !name.startsWith(OURS)),
]

const measured = rows.find(({ name }) => name === process.argv[2])
if (measured !== undefined) await sendNanoseconds(measured, Number(process.argv[3]))
else await printTable()

/** Has every row measured in processes of its own, in turn: one that has run another hook too is slower. */
async function printTable(): Promise<void> {
  const program = new Command('npm run bench:hook --')
    .option('--rounds <int>', 'how often every hook is measured', integer('rounds', 1, 100), 5)
    .option('--batches <int>', `how many batches of ${CALLS} calls a round has`, integer('batches', 1, 100_000), 500)
    .option('--rows <substring...>', 'parts of the names of the hooks to measure')
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
    .parse()
  const { rounds, batches, rows: parts = [''] } = program.opts()
  const chosen = chooseRows(rows, parts, program)
  const results = chosen.map(({ name }) => ({ name, nanoseconds: [] as number[] }))
  for (let round = 0; round < rounds; round++) {
    for (const { name, nanoseconds } of results) {
      nanoseconds.push(await messageFrom(fork(fileURLToPath(import.meta.url), [name, String(batches)])))
    }
  }
  for (const line of ['| Hook | ns | least |', '|---|--:|--:|']) printLine(line)
  for (const { name, nanoseconds } of results) {
    printLine(`| ${name} | ${median(nanoseconds).toFixed(0)} | ${Math.min(...nanoseconds).toFixed(0)} |`)
  }
}

/** Sends the parent the median of a hook's batches, without what Fastify takes for hooks that do nothing. */
async function sendNanoseconds(row: Row, batches: number): Promise<void> {
  const places = new Places()
  try {
    const hook = await places.with(row, (place) => openHook(row, place))
    const none = await places.with({}, (place) => openHook({ register: () => undefined }, place))
    const nanoseconds: number[] = []
    for (let batch = 0; batch < batches; batch++) nanoseconds.push((await hook.call()) - (await none.call()))
    process.send?.(median(nanoseconds))
    await Promise.all([hook.app.close(), none.app.close()])
  } finally {
    await places.close()
  }
}

/** Creates an app whose requests stop before the limiter, and a function that measures their way through it. */
async function openHook({ prepare, register }: Pick<Row, 'prepare' | 'register'>, place: Place) {
  await prepare?.(place)
  const app = Fastify()
  const waiting: HookHandlerDoneFunction[] = []
  let passed = 0
  app.addHook('onRequest', (_request, _reply, done) => void waiting.push(done))
  await register(app, place)
  app.addHook('onRoute', (route) => {
    // The last hook, behind those of the route, to which @fastify/rate-limit adds its own; nothing comes after it.
    route.onRequest = [route.onRequest ?? [], () => void passed++].flat()
  })
  app.get(PATH, async () => 'passed')
  await app.ready()

  async function call(): Promise<number> {
    for (let client = 0; client < CALLS; client++) {
      app.inject({ url: PATH, headers: { [CLIENT_HEADER]: `client-${client}` } }, () => undefined)
    }
    while (waiting.length < CALLS) await new Promise(setImmediate)
    passed = 0
    const start = process.hrtime.bigint()
    for (const done of waiting) done()
    // Nothing here waits for more than promises.
    while (passed < CALLS) await undefined
    const nanoseconds = Number(process.hrtime.bigint() - start) / CALLS
    waiting.length = 0
    return nanoseconds
  }
  return { app, call }
}

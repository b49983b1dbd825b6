import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { EventLogStats } from '../../src/index.js'
import { CLIENT_HEADER, type LoadGenerator, NEW_ENDING } from './load.js'
import { eventsBetween, type Measurement, measurementOf } from './measurement.js'
import { FULL_PATH, type Place, pathsOf, type Row } from './row.js'

/** Long enough to compile the server's code and plan its statements; shorter for shorter measurements. */
const WARM_UP_SECONDS = 2
const LIMIT_HEADER = 'x-ratelimit-limit'

export interface MeasureOptions {
  readonly load: LoadGenerator
  readonly seconds: number
  readonly signal: AbortSignal
}

/** Starts the server of a row, loads it, and stops it. */
export async function measureRow(row: Row, place: Place, options: MeasureOptions): Promise<Measurement> {
  const { load, seconds, signal } = options
  const server = forkScript('server', [row.id], { NODE_ENV: 'production', BENCH_PLACE: JSON.stringify(place) })
  try {
    const origin = `http://127.0.0.1:${await portOf(server)}`
    const plan = { origin, paths: pathsOf(row), signal }
    await checkAnswers(row, origin)
    await load.run({ ...plan, seconds: Math.min(WARM_UP_SECONDS, seconds) })
    const before = await eventStats(row, server)
    const result = await load.run({ ...plan, seconds })
    const after = await eventStats(row, server)
    await checkAnswers(row, origin)
    return measurementOf(row, result, before && after && eventsBetween(before, after))
  } finally {
    await stop(server)
  }
}

/** Starts a script beside this one: `.js` when built, `.ts` when run through a loader. */
export function forkScript(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  nodeOptions: readonly string[] = [],
): ChildProcess {
  const script = fileURLToPath(new URL(`./${name}${extname(import.meta.url)}`, import.meta.url))
  return fork(script, args, { env: { ...process.env, ...env }, execArgv: [...process.execArgv, ...nodeOptions] })
}

/** Returns the next message of a child process. */
export async function messageFrom(child: ChildProcess) {
  const [message] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`The process ended with status ${code}`))),
  ])
  return message
}

async function portOf(server: ChildProcess): Promise<number> {
  return (await messageFrom(server)).port
}

async function eventStats(row: Row, server: ChildProcess): Promise<EventLogStats | undefined> {
  if (row.withoutEvents === undefined) return undefined
  server.send('events')
  return (await messageFrom(server)).events
}

/** Checks the answers of a row, since a limiter that does nothing would seem fast. */
async function checkAnswers(row: Row, origin: string): Promise<void> {
  const [path = '/'] = pathsOf(row)
  await expectAnswer(row, `${origin}${path.replace(NEW_ENDING, '0')}`, 200, row.id !== row.bare)
  if (row.bare === 'bare') return
  // Exhausts the limit.
  await answerOf(`${origin}${FULL_PATH}`)
  await expectAnswer(row, `${origin}${FULL_PATH}`, 429, true)
}

async function expectAnswer(row: Row, url: string, status: number, isLimited: boolean): Promise<void> {
  const answer = await answerOf(url)
  if (answer.status === status && answer.isLimited === isLimited) return
  throw new Error(`Row ${row.id} answers ${url} with ${answer.status} and ${answer.isLimited ? 'a' : 'no'} limit`)
}

async function answerOf(url: string) {
  const response = await fetch(url, { headers: { [CLIENT_HEADER]: 'probe' } })
  await response.arrayBuffer()
  return { status: response.status, isLimited: response.headers.has(LIMIT_HEADER) }
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const exited = once(server, 'exit')
  const timer = setTimeout(() => server.kill('SIGKILL'), 10_000)
  if (server.connected) server.disconnect()
  await exited
  clearTimeout(timer)
}

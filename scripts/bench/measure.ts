import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { CLIENT_HEADER, NEW_ENDING, runLoad } from './load.js'
import { BARE, type Row } from './rows.js'
import { type Backend, databaseMicroseconds, sum } from './servers.js'

/**
 * The warm-up is long enough to compile the server's code and plan its statements; shorter for shorter measurements.
 */
const WARM_UP_SECONDS = 2
/**
 * The time for which a row is loaded before the bare servers are, and so on in turn: the speed of a machine changes in
 * seconds.
 */
const SLICE_SECONDS = 1
/** The time for which servers may finish what follows the last answers of a slice, before they are paused. */
const SETTLE_MS = 10
/** The number of servers that are loaded at a time: more would have hardly any of the machine, each. */
export const LOADED_SERVERS = 4
const SERVER = fileURLToPath(new URL(`./server${extname(import.meta.url)}`, import.meta.url))

/** The resources that a server has used since it started. */
export interface ServerUse {
  /** CPU time, that of its threads included. */
  readonly microseconds: number
  readonly lostEvents: number
}

export interface MeasureOptions {
  readonly seconds: number
  /** The number of processes that serve the row, over one backend. */
  readonly processes: number
  readonly signal: AbortSignal
}

/** The results of one row's servers. */
export interface Measured {
  readonly requestsPerSecond: number
  /** CPU microseconds per request. */
  readonly serverCpu: number
  /** NaN where it is unknown. */
  readonly databaseCpu: number
  readonly p99Ms: number
  /** Answers with another status than 200. */
  readonly refusals: number
  readonly lostEvents: number
}

/** A round of a row, and the results of the bare servers in turn with it. */
export interface Measurement extends Measured {
  readonly bare: Measured
}

type Load = Awaited<ReturnType<typeof runLoad>>
export type Servers = Awaited<ReturnType<typeof startServers>>

/**
 * Starts the servers of a row, and warms them up. They are paused unless they are loaded, so that what they do in the
 * background does not disturb the measurement of others.
 */
export async function startServers(row: Row, backend: Backend, { seconds, processes, signal }: MeasureOptions) {
  await row.prepare?.(backend)
  const { paths = ['/'] } = row
  const servers = Array.from({ length: processes }, () => startServer(row, backend))
  const signalAll = (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const server of servers) server.kill(name)
  }
  const pause = () => signalAll('SIGSTOP')
  const resume = () => signalAll('SIGCONT')

  // Stopped processes would outlive this one.
  process.once('exit', resume)

  async function stop(): Promise<void> {
    process.off('exit', resume)
    resume()
    await Promise.all(servers.map((server) => server.stop()))
  }

  async function use() {
    resume()
    const uses = await Promise.all(servers.map((server) => server.readUse()))
    const databaseCpu = await databaseMicroseconds(row.needs)
    pause()
    const total = (what: keyof ServerUse) => sum(uses.map((each) => each[what]))
    return { serverCpu: total('microseconds'), databaseCpu, lostEvents: total('lostEvents') }
  }

  async function load(groups: readonly string[][], loadSeconds: number): Promise<Load> {
    resume()
    const loads: Load[] = []
    for (const group of groups) loads.push(await runLoad(group, paths, loadSeconds, signal))
    await delay(SETTLE_MS)
    pause()
    return added(loads)
  }

  /** Returns a function that loads the servers for one slice, and one that ends the measurement of all slices. */
  async function begin(groups: readonly string[][]) {
    const before = await use()
    const slices: Load[] = []
    return {
      loadSlice: async () => void slices.push(await load(groups, SLICE_SECONDS)),
      async end(): Promise<Measured> {
        const after = await use()
        const { answers, seconds, refusals, microseconds } = added(slices)
        return {
          requestsPerSecond: answers / seconds,
          serverCpu: (after.serverCpu - before.serverCpu) / answers,
          databaseCpu: (after.databaseCpu - before.databaseCpu) / answers,
          p99Ms: microseconds.percentile(99) / 1_000,
          refusals,
          lostEvents: after.lostEvents - before.lostEvents,
        }
      },
    }
  }

  try {
    const origins = await Promise.all(servers.map(({ origin }) => origin))
    for (const origin of origins) await checkAnswer(row, origin + (paths[0] ?? '').replace(NEW_ENDING, '0'))
    const groups = Array.from({ length: Math.ceil(processes / LOADED_SERVERS) }, (_, group) =>
      origins.slice(group * LOADED_SERVERS, (group + 1) * LOADED_SERVERS),
    )
    await load(groups, Math.min(WARM_UP_SECONDS, seconds) * Math.min(processes, LOADED_SERVERS))
    return { begin: () => begin(groups), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Starts the servers of a row, loads the bare ones and them in turn, and stops them. */
export async function measureRow(
  row: Row,
  backend: Backend,
  bare: Servers,
  options: MeasureOptions,
): Promise<Measurement> {
  const servers = await startServers(row, backend, options)
  try {
    const measured = [await bare.begin(), await servers.begin()] as const
    for (let slice = 0; slice < options.seconds / SLICE_SECONDS; slice++) {
      // The work that a database is left to do after a row's slice disturbs either.
      const order = slice % 2 === 0 ? measured : measured.toReversed()
      for (const { loadSlice } of order) await loadSlice()
    }
    return { bare: await measured[0].end(), ...(await measured[1].end()) }
  } finally {
    await servers.stop()
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle)] ?? 0)) / 2
}

function added(loads: readonly Load[]): Load {
  const microseconds = createHistogram()
  for (const load of loads) microseconds.add(load.microseconds)
  const total = (what: 'answers' | 'refusals' | 'seconds') => sum(loads.map((load) => load[what]))
  return { answers: total('answers'), refusals: total('refusals'), seconds: total('seconds'), microseconds }
}

function startServer({ name }: Row, backend: Backend) {
  const env = { ...process.env, NODE_ENV: 'production', BENCH_BACKEND: JSON.stringify(backend) }
  const server = fork(SERVER, [name], { env })
  const exited = once(server, 'exit')
  return {
    origin: messageFrom(server),
    readUse(): Promise<ServerUse> {
      server.send('use')
      return messageFrom(server)
    },
    kill: (signal: 'SIGSTOP' | 'SIGCONT') => void server.kill(signal),
    async stop() {
      if (server.connected) server.disconnect()
      await exited
    },
  }
}

/** Checks an answer of a row, since a limiter that does nothing would seem fast. */
async function checkAnswer({ name }: Row, url: string): Promise<void> {
  const { status, headers } = await fetch(url, { headers: { [CLIENT_HEADER]: 'probe' } })
  const isLimited = headers.has('x-ratelimit-limit')
  if (status === 200 && isLimited === (name !== BARE)) return
  throw new Error(`${name} answers ${url} with ${status} and ${isLimited ? 'a' : 'no'} limit`)
}

/** Returns the next message of a child process. */
export async function messageFrom(child: ChildProcess) {
  const exited = once(child, 'exit').then(([code]) =>
    Promise.reject(new Error(`The process ended with status ${code}`)),
  )
  const [message] = await Promise.race([once(child, 'message'), exited])
  return message
}

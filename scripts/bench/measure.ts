import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLIENT_HEADER, NEW_ENDING, runLoad } from './load.js'
import { BARE, type Row } from './rows.js'
import { databaseMicroseconds, type Place, sum } from './servers.js'

/** Long enough to compile the server's code and plan its statements; shorter for shorter measurements. */
const WARM_UP_SECONDS = 2
/** How many servers are loaded at a time: more would have hardly any of the machine, each. */
export const LOADED_SERVERS = 4
const SERVER = fileURLToPath(new URL(`./server${extname(import.meta.url)}`, import.meta.url))

/** What a server has used since it started. */
export interface ServerUse {
  /** CPU time, that of its threads included. */
  readonly microseconds: number
  readonly lostEvents: number
}

/** The result of one round of a row. */
export type Measurement = Awaited<ReturnType<typeof measureRow>>

interface MeasureOptions {
  readonly seconds: number
  /** How many processes serve the row, over one place. */
  readonly processes: number
  readonly signal: AbortSignal
}

/** Starts the servers of a row, loads some of them after the others, and stops them. Its p99 is that of the slowest. */
export async function measureRow(row: Row, place: Place, { seconds, processes, signal }: MeasureOptions) {
  await row.prepare?.(place)
  const servers = Array.from({ length: processes }, () => startServer(row, place))
  try {
    const origins = await Promise.all(servers.map(({ origin }) => origin))
    const { paths = ['/'] } = row
    const path = (paths[0] ?? '').replace(NEW_ENDING, '0')
    for (const origin of origins) await checkAnswer(row, origin + path)
    const groups = Array.from({ length: Math.ceil(processes / LOADED_SERVERS) }, (_, group) =>
      origins.slice(group * LOADED_SERVERS, (group + 1) * LOADED_SERVERS),
    )
    const warmUpSeconds = Math.min(WARM_UP_SECONDS, seconds)
    for (const group of groups) await runLoad(group, paths, warmUpSeconds * group.length, signal)
    const readUse = () => Promise.all(servers.map((server) => server.readUse()))
    const [before, databaseBefore] = [await readUse(), await databaseMicroseconds(row.needs)]
    const loads: Awaited<ReturnType<typeof runLoad>>[] = []
    for (const group of groups) loads.push(await runLoad(group, paths, seconds, signal))
    const [after, databaseAfter] = [await readUse(), await databaseMicroseconds(row.needs)]
    const answers = sum(loads.map((load) => load.answers))
    const used = (what: keyof ServerUse) => sum(after.map((use) => use[what])) - sum(before.map((use) => use[what]))
    return {
      requestsPerSecond: answers / sum(loads.map((load) => load.seconds)),
      /** CPU microseconds per request. */
      serverCpu: used('microseconds') / answers,
      /** NaN where it is unknown. */
      databaseCpu: (databaseAfter - databaseBefore) / answers,
      p99Ms: Math.max(...loads.map(({ p99Ms }) => p99Ms)),
      refusals: sum(loads.map((load) => load.refusals)),
      lostEvents: used('lostEvents'),
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
  }
}

function startServer({ name }: Row, place: Place) {
  const env = { ...process.env, NODE_ENV: 'production', BENCH_PLACE: JSON.stringify(place) }
  const server = fork(SERVER, [name], { env })
  const exited = once(server, 'exit')
  return {
    origin: messageFrom(server),
    readUse(): Promise<ServerUse> {
      server.send('use')
      return messageFrom(server)
    },
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

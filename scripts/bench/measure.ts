import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLIENT_HEADER, NEW_ENDING, runLoad } from './load.js'
import { BARE, type Row } from './rows.js'
import { databaseMicroseconds, type Place } from './servers.js'

/** Long enough to compile the server's code and plan its statements; shorter for shorter measurements. */
const WARM_UP_SECONDS = 2
const SERVER = fileURLToPath(new URL(`./server${extname(import.meta.url)}`, import.meta.url))

/** What a server has used since it started. */
export interface ServerUse {
  /** CPU time, that of its threads included. */
  readonly microseconds: number
  readonly lostEvents: number
}

/** The result of one round of a row. */
export type Measurement = Awaited<ReturnType<typeof measureRow>>

/** Starts the server of a row, loads it, and stops it. */
export async function measureRow(row: Row, place: Place, seconds: number, signal: AbortSignal) {
  const env = { ...process.env, NODE_ENV: 'production', BENCH_PLACE: JSON.stringify(place) }
  const server = fork(SERVER, [row.name], { env })
  const exited = once(server, 'exit')
  const readUse = (): Promise<ServerUse> => {
    server.send('use')
    return messageFrom(server)
  }
  try {
    const origin: string = await messageFrom(server)
    const { paths = ['/'] } = row
    await checkAnswer(row, origin + paths[0]?.replace(NEW_ENDING, '0'))
    await runLoad(origin, paths, Math.min(WARM_UP_SECONDS, seconds), signal)
    const [before, databaseBefore] = [await readUse(), await databaseMicroseconds(row.needs)]
    const { answers, refusals, p99Ms, seconds: took } = await runLoad(origin, paths, seconds, signal)
    const [after, databaseAfter] = [await readUse(), await databaseMicroseconds(row.needs)]
    return {
      requestsPerSecond: answers / took,
      /** CPU microseconds per request. */
      serverCpu: (after.microseconds - before.microseconds) / answers,
      /** NaN where it is unknown. */
      databaseCpu: (databaseAfter - databaseBefore) / answers,
      p99Ms,
      refusals,
      lostEvents: after.lostEvents - before.lostEvents,
    }
  } finally {
    if (server.connected) server.disconnect()
    await exited
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

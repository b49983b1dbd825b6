import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLIENT_HEADER, load, type Measurement } from './load.js'
import type { Row } from './rows.js'

/** Long enough for the server's code to be compiled and its statements to be planned. */
const WARM_UP_SECONDS = 1
const LIMIT_HEADER = 'x-ratelimit-limit'

/** Starts the server of a row, loads it, and stops it. */
export async function measureRow(
  row: Row,
  seconds: number,
  databaseUrl: string | undefined,
  schema: string,
): Promise<Measurement> {
  // Beside this file: `.js` when built, `.ts` when run through a loader.
  const script = fileURLToPath(new URL(`./server${extname(import.meta.url)}`, import.meta.url))
  const server = fork(script, [row.id, schema, ...(databaseUrl === undefined ? [] : [databaseUrl])], {
    env: { ...process.env, NODE_ENV: 'production' },
  })
  try {
    const url = `http://127.0.0.1:${await portOf(server)}/`
    await checkAnswer(row, url)
    await load(url, WARM_UP_SECONDS)
    return await load(url, seconds)
  } finally {
    await stop(server)
  }
}

async function portOf(server: ChildProcess): Promise<number> {
  const [message] = await Promise.race([
    once(server, 'message'),
    once(server, 'exit').then(([code]) => Promise.reject(new Error(`The server ended with status ${code}`))),
  ])
  return message.port
}

/** A row whose limiter does nothing would look fast. */
async function checkAnswer(row: Row, url: string): Promise<void> {
  const response = await fetch(url, { headers: { [CLIENT_HEADER]: 'probe' } })
  const isLimited = response.headers.has(LIMIT_HEADER)
  if (!response.ok || isLimited !== row.isLimited) {
    throw new Error(`Row ${row.id} answers ${response.status} with ${isLimited ? 'a' : 'no'} limit`)
  }
  await response.arrayBuffer()
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const exited = once(server, 'exit')
  const timer = setTimeout(() => server.kill('SIGKILL'), 5_000)
  if (server.connected) server.disconnect()
  await exited
  clearTimeout(timer)
}

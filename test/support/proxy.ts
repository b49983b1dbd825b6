/** Real servers of other programs, reverse proxies above all, each started by a test on a port of its own. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { atEnd } from './at-end.js'

/** Returns why a program is left out, or `false`. Continuous integration never leaves it out. */
export function programMissing(program: string, version: string): string | false {
  return (
    process.env.CI === undefined && spawnSync(program, [version]).error !== undefined && `${program} is not installed`
  )
}

/**
 * Starts a program that listens; the end of the test stops it.
 *
 * @param configure returns the configuration for a port, and a folder for its files
 * @param command the program, and its arguments for the file of the configuration
 * @returns the port
 */
export async function startProxy(
  t: TestContext,
  configure: (port: number, folder: string) => string,
  command: (file: string, folder: string) => readonly [program: string, ...args: string[]],
  environment: Readonly<Record<string, string>> = {},
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-proxy-'))
  const port = await freePort()
  const file = join(folder, 'proxy.conf')
  writeFileSync(file, configure(port, folder))
  const [program, ...args] = command(file, folder)
  const proxy = spawn(program, args, {
    env: { ...process.env, HOME: folder, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [proxy.stdout, proxy.stderr]) stream.on('data', (chunk) => (said += chunk))
  const exited = once(proxy, 'exit')
  atEnd(t, async () => {
    proxy.kill('SIGTERM')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
  for (let count = 0; !(await accepts(port)); count++) {
    if (count > 200 || proxy.exitCode !== null) throw new Error(`${program} does not start: ${said}`)
    await delay(50)
  }
  return port
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

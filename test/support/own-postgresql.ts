import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { atEnd } from './at-end.js'
import { eventually } from './eventually.js'
import { closedPort } from './tcp-proxy.js'

const DEBIAN_FOLDER = '/usr/lib/postgresql'
/** The server does not run as root. */
const isRoot = process.getuid?.() === 0
const SERVER_USER = 'postgres'

/** The reason why no server can be started here, or `false`. */
export const ownPostgresqlMissing: string | false =
  findBinaries() === undefined
    ? `no initdb and postgres in PATH or ${DEBIAN_FOLDER}`
    : isRoot && !canRunAsServerUser()
      ? `this is root, and there is no user ${SERVER_USER} to run the server as`
      : false

/** A PostgreSQL server of the test's own, which it may kill. */
export interface OwnPostgresql {
  readonly url: string
  /** Starts the server, and resolves when it answers. */
  start(): Promise<void>
  /** Ends it: `SIGINT` in order, `SIGKILL` as a crash would. */
  stop(signal: 'SIGINT' | 'SIGKILL'): Promise<void>
}

/** Starts a server on a free port; the end of the test removes it. */
export async function startOwnPostgresql(t: TestContext): Promise<OwnPostgresql> {
  const binaries = findBinaries()
  if (binaries === undefined) throw new Error(String(ownPostgresqlMissing))
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-postgresql-'))
  const cluster = join(folder, 'cluster')
  const port = await closedPort()
  const url = `postgresql://${SERVER_USER}@127.0.0.1:${port}/postgres`
  if (isRoot) execFileSync('chown', [SERVER_USER, folder])
  await chmod(folder, 0o700)
  execute(join(binaries, 'initdb'), ['-D', cluster, '-U', SERVER_USER, '-A', 'trust', '--no-sync', '-E', 'UTF8'])
  let server: ChildProcess | undefined

  async function stop(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    if (server === undefined) return
    const closed = once(server, 'close')
    // The server itself is killed here, since "runuser" hands on no signal that it cannot catch.
    const [pid] = execFileSync('head', ['-n', '1', join(cluster, 'postmaster.pid')], { encoding: 'utf8' }).split('\n')
    process.kill(Number(pid), signal)
    await closed
    server = undefined
  }
  async function start(): Promise<void> {
    const flags = ['-D', cluster, '-p', String(port), '-k', folder, '-F', '-c', 'listen_addresses=127.0.0.1']
    // The processes of the old server have to be gone first after a crash: it says so, and ends.
    await eventually(
      'the server answers',
      async () => {
        if (server === undefined || server.exitCode !== null)
          server = spawnServer(join(binaries ?? '', 'postgres'), flags)
        return answers(url)
      },
      20_000,
    )
  }

  atEnd(t, async () => {
    await stop('SIGINT')
    await rm(folder, { recursive: true, force: true })
  })
  await start()
  return { url, start, stop }
}

function findBinaries(): string | undefined {
  const versions = existsSync(DEBIAN_FOLDER) ? readdirSync(DEBIAN_FOLDER).sort() : []
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    ...versions.reverse().map((version) => join(DEBIAN_FOLDER, version, 'bin')),
  ]
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))
}

function canRunAsServerUser(): boolean {
  try {
    execFileSync('runuser', ['-u', SERVER_USER, '--', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** The command as the user that may run it. */
function asServerUser(command: string, args: readonly string[]): [string, string[]] {
  return isRoot ? ['runuser', ['-u', SERVER_USER, '--', command, ...args]] : [command, [...args]]
}

function execute(command: string, args: readonly string[]): void {
  const [file, all] = asServerUser(command, args)
  execFileSync(file, all, { stdio: 'ignore', cwd: tmpdir() })
}

function spawnServer(command: string, args: readonly string[]): ChildProcess {
  const [file, all] = asServerUser(command, args)
  return spawn(file, all, { stdio: 'ignore', cwd: tmpdir() })
}

/** Returns whether a server takes connections, and answers. */
export async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('SELECT 1')
    return true
  } catch {
    return false
  } finally {
    await client.end().catch(() => undefined)
  }
}

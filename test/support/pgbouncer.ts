import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.js'
import { eventually } from './eventually.js'
import { answers } from './own-postgresql.js'
import { closedPort } from './tcp-proxy.js'

const [, major, minor] =
  /PgBouncer (\d+)\.(\d+)/.exec(spawnSync('pgbouncer', ['--version']).stdout?.toString() ?? '') ?? []

/** The reason why PgBouncer is left out, or `false`. */
export const pgbouncerMissing = major === undefined && 'no pgbouncer in PATH'

/** The reason why its support of prepared statements is left out, or `false`. */
export const preparedMissing =
  pgbouncerMissing ||
  (Number(major) < 2 && Number(minor) < 21 && `PgBouncer ${major}.${minor} cannot prepare statements`)

/**
 * Starts a PgBouncer before a server, in transaction pooling with fewer connections to it than its clients have, so that they
 * use the same ones in turn. Returns the URL.
 *
 * @param prepared the number of prepared statements per connection, where this version has them
 */
export async function startPgbouncer(t: TestContext, serverUrl: string, prepared = 0): Promise<string> {
  const url = new URL(serverUrl)
  const [port, folder] = [await closedPort(), await mkdtemp(join(tmpdir(), 'ratelimit-pgbouncer-'))]
  await chmod(folder, 0o755)
  const file = join(folder, 'pgbouncer.ini')
  const password = url.password === '' ? '' : ` password=${decodeURIComponent(url.password)}`
  const lines = [
    '[databases]',
    `* = host=${url.hostname} port=${url.port || 5432} user=${decodeURIComponent(url.username)}${password}`,
    '[pgbouncer]',
    `listen_addr = 127.0.0.1`,
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    // PGOPTIONS of the tests, which this version does not know.
    'ignore_startup_parameters = options',
    'pool_mode = transaction',
    'default_pool_size = 3',
    ...(preparedMissing === false ? [`max_prepared_statements = ${prepared}`] : []),
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  // It does not run as root.
  const args = process.getuid?.() === 0 ? ['-u', 'nobody', file] : [file]
  const server = spawn('pgbouncer', args, { stdio: 'ignore' })
  const ended = once(server, 'exit')
  atEnd(t, async () => {
    server.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  url.host = `127.0.0.1:${port}`
  await eventually('PgBouncer answers', () => answers(url.href))
  return url.href
}

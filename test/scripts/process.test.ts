/** `ratelimit` as a process: its exit status, signals, closed pipes, a full disk, and the terminal's width. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase } from '../support/build-app.js'
import { logEvents } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { LOADER, modulePath } from '../support/modules.js'
import { runScript, startScript } from '../support/scripts.js'

const EVENTS = 4_000
const HELP = [process.execPath, ...LOADER, modulePath('scripts/ratelimit'), 'alerts', '--help']

async function startPruning(t: TestContext) {
  const { client, url } = await openDatabase(t, 'sqlite')
  await logEvents(client, { key: 'user:7', allowed: EVENTS, atMs: Date.now() - 60 * DAY_MS })
  const child = startScript('ratelimit', ['prune-events', '--batch-size', '1', '--json'], {
    env: { RATELIMIT_DATABASE_URL: url },
  })
  atEnd(t, () => child.kill('SIGKILL'))
  const output = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  await eventually('it has begun', async () => (await client.rateLimitEvent.count()) < EVENTS, 30_000)
  return { client, child, output }
}

test('wrong usage ends the process with status 2', async () => {
  assert.equal((await runScript('ratelimit', ['alert'])).status, 2)
})

test('the first signal ends a command that does not work in batches', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1')
  atEnd(t, () => silent.close())
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const child = startScript('ratelimit', ['health'], {
    env: { RATELIMIT_DATABASE_URL: 'file:/nowhere/at/all.db', RATELIMIT_REDIS_URL: `redis://127.0.0.1:${port}` },
  })
  const [socket] = await once(silent, 'connection', { signal: AbortSignal.timeout(30_000) })
  atEnd(t, () => socket.destroy())
  child.kill('SIGTERM')
  await once(child, 'exit')

  assert.equal(child.signalCode, 'SIGTERM')
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`prune-events stops after a batch on ${signal}, and prints what it did`, {
    skip: process.platform === 'win32' && 'Windows ends a process without telling it',
  }, async (t) => {
    const { client, child, output } = await startPruning(t)
    child.kill(signal)
    const [stdout, stderr] = await output

    const left = await client.rateLimitEvent.count()
    assert.ok(left > 0)
    assert.equal(JSON.parse(stdout).deleted, EVENTS - left)
    assert.equal(stderr, `ratelimit prune-events: interrupted by ${signal}: run it again to go on\n`)
    assert.equal(child.exitCode, 1)
  })
}

test('a command whose reader has read enough ends without a complaint', async () => {
  const child = startScript('ratelimit', ['--help'])
  child.stdout.destroy()
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')])

  assert.deepEqual([child.exitCode, stderr], [0, ''])
})

test('a command whose warnings cannot be written does its work all the same', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-cli-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  const child = startScript('ratelimit', ['override', 'add', '203.0.113.7', 'deny'], { cwd: folder })
  // It warns first that it creates the database.
  child.stderr.destroy()
  const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')])

  assert.deepEqual([child.exitCode, stdout], [0, 'Added: ip:203.0.113.7  deny\n'])
})

test('what cannot be printed, the disk being full, is one line on stderr, and status 1', {
  skip: !existsSync('/dev/full'),
}, async () => {
  const child = spawn('/bin/sh', ['-c', 'exec "$@" > /dev/full', 'sh', ...HELP])
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')])

  assert.equal(child.exitCode, 1)
  assert.match(stderr, /^ratelimit: the output could not be printed: ENOSPC.*\n$/)
})

test('help is as wide as the terminal', {
  skip: spawnSync('script', ['--version']).status !== 0 && 'no script of util-linux to make a terminal with',
}, () => {
  const command = `stty cols 100 && ${HELP.join(' ')}`
  const { status, stdout } = spawnSync('script', ['-qec', command, '/dev/null'], { encoding: 'utf8' })
  const lengths = stdout.split('\r\n').map((line) => line.length)

  assert.equal(status, 0)
  assert.ok(Math.max(...lengths) <= 100, stdout)
  assert.ok(Math.max(...lengths) > 80, stdout)
})

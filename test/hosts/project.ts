import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import type { Ended, Host, Project, RunOptions, Server } from './host.js'

const INSTALL_TIMEOUT_MS = 300_000
const RUN_TIMEOUT_MS = 120_000
const START_TIMEOUT_MS = 60_000
const ADDRESS = /https?:\/\/(?:127\.0\.0\.1|\[::1?\]|localhost):\d+/
/** The drivers of SQLite that the checkout may have compiled, with what they need. */
const COMPILED = ['better-sqlite3', 'better-sqlite3-node20']
const COMPILED_NEED = ['bindings', 'file-uri-to-path']

/** The programs of this very Node come first; what configures npm or the limiter here is not the host's business. */
const ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_|RATELIMIT_|NODE_OPTIONS$)/.test(name))),
  PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
  NO_COLOR: '1',
}

/** Sets a host up in a folder of its own, checks it, and removes it. */
export async function checkHost({ packages, files, check }: Host, tarball: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-host-'))
  const running = new Set<Running>()
  try {
    await writeFiles(folder, { 'package.json': '{ "private": true, "type": "module" }', ...files })
    await install(folder, [tarball, ...packages], running)
    await check(createProject(folder, running))
  } finally {
    await Promise.all([...running].map((each) => each.stop()))
    await rm(folder, { recursive: true, force: true })
  }
}

async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
}

/** Without scripts of packages: what this package needs of them, the checkout has compiled already. */
async function install(folder: string, packages: readonly string[], running: Set<Running>): Promise<void> {
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--loglevel=error']
  const started = startProgram(folder, 'npm', [...args, ...packages], {}, running)
  const { status, output } = await started.ended(INSTALL_TIMEOUT_MS)
  if (status !== 0) throw new Error(`npm install fails (${status}):\n${output}`)
  const own = join(import.meta.dirname, '../../node_modules')
  const modules = join(folder, 'node_modules')
  for (const name of COMPILED.filter((each) => existsSync(join(own, each, 'build/Release/better_sqlite3.node')))) {
    for (const each of [name, ...COMPILED_NEED]) {
      await cp(join(own, each), join(modules, each), { recursive: true, force: true })
    }
  }
}

function createProject(folder: string, running: Set<Running>): Project {
  const start = (program: string, args: readonly string[], options: RunOptions) =>
    startProgram(folder, installed(folder, program), args, options, running)
  return {
    folder,
    run: (program, args = [], options = {}) => start(program, args, options).ended(RUN_TIMEOUT_MS),
    start: (program, args = [], options = {}) => serverFor(start(program, args, options), program),
  }
}

function installed(folder: string, program: string): string {
  if (program === 'node') return process.execPath
  const path = join(folder, 'node_modules/.bin', program)
  return existsSync(path) ? path : program
}

interface Running {
  output(): string
  isOver(): boolean
  ended(timeoutMs: number): Promise<Ended>
  stop(): Promise<Ended>
}

function startProgram(
  folder: string,
  program: string,
  args: readonly string[],
  { env = {}, uid }: RunOptions,
  running: Set<Running>,
): Running {
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...ENVIRONMENT, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid, gid: uid }),
  })
  let output = ''
  const print = (text: unknown) => {
    output += String(text)
  }
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', print)
  const closed = once(child, 'close').catch(print)
  const self: Running = {
    output: () => output,
    isOver: () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined,
    async ended(timeoutMs) {
      const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
      await closed
      clearTimeout(timer)
      running.delete(self)
      return { status: child.exitCode, output }
    },
    async stop() {
      kill(child)
      return self.ended(10_000)
    },
  }
  running.add(self)
  return self
}

function kill(child: ChildProcess): void {
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
}

async function serverFor(started: Running, program: string): Promise<Server> {
  for (const deadlineMs = Date.now() + START_TIMEOUT_MS; !ADDRESS.test(started.output()); ) {
    if (started.isOver() || Date.now() > deadlineMs) {
      await started.stop()
      throw new Error(`${program} does not listen:\n${started.output()}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const [url = ''] = ADDRESS.exec(started.output()) ?? []
  const request = (path: string, init: RequestInit = {}) =>
    fetch(url + path, { redirect: 'manual', signal: AbortSignal.timeout(20_000), ...init })
  return {
    url,
    output: started.output,
    stop: started.stop,
    request,
    async statuses(times, path, init) {
      const statuses: number[] = []
      for (let count = 0; count < times; count++) {
        const response = await request(path, init)
        await response.arrayBuffer()
        statuses.push(response.status)
      }
      return statuses
    },
  }
}

/** The commands of a page's samples, run in its folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

export interface Sandbox {
  readonly folder: string
  /** The meanings that the page's words for servers have here. */
  readonly meanings: ReadonlyMap<string, string>
}

/** The time-out is many times what a sample takes, on a busy machine too. */
const TIMEOUT_MS = 240_000

/** Packages are those of the repository: `npm install` has nothing to do. */
const NPM = `#!/bin/sh
case "$1" in install | i | init) exit 0 ;; esac
echo "a sample runs npm $*" >&2
exit 1
`

/** The secrets that samples read from the environment. The password is "password". */
const ENVIRONMENT = {
  NODE_NO_WARNINGS: '1',
  ALICE_PASSWORD_HASH: '$scrypt$ln=15,r=8,p=3$uR3mnSg+Sjylt9Ol0RRZkw$mj4On9a6Ox2ot82kAiQnnZYeCL/zDnOr3dMFfyyvSU0',
  STAFF_SESSION_SECRET: 'the samples have a secret of 32 characters',
}

const running = new Map<Sandbox, Set<ChildProcess>>()

/**
 * Runs a command with bash and returns what it printed to stdout. One in the background goes on, after all others of
 * its page that did: its text is empty, and what comes next may have to wait for it. Rejects where it fails.
 */
export async function runCommand(sandbox: Sandbox, command: string, { background = false } = {}): Promise<string> {
  if (background) await stopAll(sandbox)
  const child = spawn('bash', ['-e', '-o', 'pipefail', '-c', command], {
    cwd: sandbox.folder,
    env: { ...process.env, ...ENVIRONMENT, PATH: `${createTools(sandbox)}${delimiter}${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let stdout = ''
  let all = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    all += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    all += text
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  if (background) {
    running.set(sandbox, (running.get(sandbox) ?? new Set()).add(child))
    await Promise.race([answers(sandbox), ended.then(() => Promise.reject(new Error(`ends: ${all}`)))])
    return stdout
  }
  const timer = setTimeout(() => kill(child), TIMEOUT_MS)
  const status = await ended
  clearTimeout(timer)
  if (status !== 0) throw new Error(`fails (${status ?? 'killed'}): ${all}`)
  return stdout
}

/** Ends what a page started in the background. */
export async function stopAll(sandbox: Sandbox): Promise<void> {
  for (const child of running.get(sandbox) ?? []) {
    const ended = new Promise((resolve) => child.once('close', resolve))
    if (child.exitCode === null && child.signalCode === null) {
      kill(child)
      await ended
    }
  }
  running.delete(sandbox)
}

/** Ends a command with all that it started. */
function kill({ pid }: ChildProcess): void {
  if (pid !== undefined) process.kill(-pid, 'SIGTERM')
}

/** Waits until the server of a page takes connections. No request is sent, since it would count. */
async function answers({ meanings }: Sandbox): Promise<void> {
  const [host = '', port = ''] = meanings.get('localhost:3000')?.split(':') ?? []
  for (const end = Date.now() + TIMEOUT_MS; Date.now() < end; await wait(50)) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(Number(port), host, () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (isOpen) return
  }
  throw new Error(`nothing listens on ${host}:${port}`)
}

function createTools({ folder }: Sandbox): string {
  const tools = join(folder, 'node_modules', '.tools')
  mkdirSync(tools, { recursive: true })
  writeFileSync(join(tools, 'npm'), NPM)
  chmodSync(join(tools, 'npm'), 0o755)
  return tools
}

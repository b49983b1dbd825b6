import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { text } from 'node:stream/consumers'
import { LOADER, modulePath } from './modules.js'

export interface ScriptRun {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface ScriptOptions {
  /** Where it runs; nowhere in particular unless given. */
  readonly cwd?: string
  /** Settings; none of this process's own reaches the script. */
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
}

/** Starts a script of `scripts/`, named without its ending, in a process of its own. */
export function startScript(name: string, args: readonly string[], { cwd = tmpdir(), env = {} }: ScriptOptions = {}) {
  const inherited = Object.entries(process.env).filter(
    ([variable]) => !/^(?:RATELIMIT_|NODE_TEST_|DEBUG$)/.test(variable),
  )
  return spawn(process.execPath, [...LOADER, modulePath(`scripts/${name}`), ...args], {
    cwd,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: 'pipe',
  })
}

/** Runs a script to its end. */
export async function runScript(
  name: string,
  args: readonly string[],
  options: ScriptOptions = {},
): Promise<ScriptRun> {
  const child = startScript(name, args, options)
  child.stdin.end(options.input ?? '')
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { status: child.exitCode, stdout, stderr }
}

/** Runs `ratelimit <args…>`. */
export function ratelimit(args: readonly string[], options?: ScriptOptions): Promise<ScriptRun> {
  return runScript('ratelimit', args, options)
}

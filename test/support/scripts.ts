import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { ratelimit as runRatelimit } from '../../scripts/commands/run.js'
import { LOADER, modulePath } from './modules.js'

export interface ScriptRun {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface ScriptOptions {
  /** The folder in which it runs; any unless given. */
  readonly cwd?: string
  /** Settings; none of this process's own reaches the script. */
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
}

/** Starts a script of `scripts/`, named without its ending, in a process of its own. */
export function startScript(name: string, args: readonly string[], options: ScriptOptions = {}) {
  return startNode([modulePath(`scripts/${name}`), ...args], options)
}

function startNode(args: readonly string[], { cwd = tmpdir(), env = {} }: ScriptOptions) {
  return spawn(process.execPath, [...LOADER, ...args], {
    cwd,
    env: { ...inheritedEnvironment(), ...env },
    stdio: 'pipe',
  })
}

/** The environment of this process without what would be a setting. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(?:RATELIMIT_|NODE_TEST_|DEBUG$)/.test(name))
  return Object.fromEntries(inherited)
}

/** Runs a script to its end. */
export function runScript(name: string, args: readonly string[], options: ScriptOptions = {}): Promise<ScriptRun> {
  const child = startScript(name, args, options)
  child.stdin.end(options.input ?? '')
  return ending(child)
}

/** Runs the source of a module in a process of its own. */
export function runModule(source: string, options: ScriptOptions = {}): Promise<ScriptRun> {
  return ending(startNode(['--input-type=module', '--eval', source], options))
}

async function ending(child: ReturnType<typeof startNode>): Promise<ScriptRun> {
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { status: child.exitCode, stdout, stderr }
}

interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
  readonly signal?: AbortSignal
  /** The width of the terminal that it prints to, where it is one. */
  readonly columns?: number
}

/** Runs `ratelimit <args…>` in this process. */
export async function ratelimit(
  args: readonly string[],
  { env = {}, input = '', signal = new AbortController().signal, columns }: CommandOptions = {},
): Promise<ScriptRun> {
  const terminal = columns === undefined ? {} : { isTTY: true, columns }
  const stdout = Object.assign(new PassThrough(), terminal)
  const stderr = Object.assign(new PassThrough(), terminal)
  const printed = Promise.all([text(stdout), text(stderr)])
  const status = await runRatelimit(args, { stdin: Readable.from([input]), stdout, stderr, env, signal })
  stdout.end()
  stderr.end()
  const [out, err] = await printed
  return { status, stdout: out, stderr: err }
}

import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Type from 'typebox'
import Value from 'typebox/value'
import { PACKAGE_ROOT } from '../../src/package-root.js'
import { CLIENT_HEADER, CLIENTS, CONNECTIONS, type LoadGenerator, type LoadPlan, type LoadResult } from './load.js'

const SCRIPT = join(PACKAGE_ROOT, 'scripts', 'bench', 'wrk-load.lua')
const RESULT_LINE = /^bench (\{.*\})$/m

const Count = Type.Integer({ minimum: 0 })
const Microseconds = Type.Number({ exclusiveMinimum: 0 })
/** The last line that `wrk-load.lua` writes. */
const WrkResult = Type.Object(
  {
    requests: Type.Integer({ minimum: 1 }),
    microseconds: Microseconds,
    p50: Microseconds,
    p99: Microseconds,
    /** Answers with a status of 400 or more. */
    status: Count,
    connect: Count,
    read: Count,
    write: Count,
    timeout: Count,
  },
  { additionalProperties: false },
)

/** The load of the C program wrk, Debian's package `wrk`. */
export const wrkLoad: LoadGenerator = { name: 'wrk', run }

export function isWrkInstalled(): boolean {
  return spawnSync('wrk', ['--version']).error === undefined
}

async function run({ origin, seconds, paths, signal }: LoadPlan): Promise<LoadResult> {
  const args = ['-t', '1', '-c', String(CONNECTIONS), '-d', `${seconds}s`, '-s', SCRIPT, origin]
  const { stdout } = await promisify(execFile)('wrk', [...args, '--', CLIENT_HEADER, String(CLIENTS), ...paths], {
    signal,
  })
  signal.throwIfAborted()
  return parseWrkResult(stdout)
}

/** @throws Error for any text except what `wrk-load.lua` writes after at least one answer */
export function parseWrkResult(stdout: string): LoadResult {
  const json = RESULT_LINE.exec(stdout)?.[1]
  const result: unknown = json === undefined ? undefined : JSON.parse(json)
  if (!Value.Check(WrkResult, result)) throw new Error(`wrk ended without a result: ${JSON.stringify(stdout)}`)
  return {
    requestsPerSecond: (result.requests / result.microseconds) * 1_000_000,
    p50Ms: result.p50 / 1_000,
    p99Ms: result.p99 / 1_000,
    answers: result.requests,
    refusals: result.status,
    socketErrors: result.connect + result.read + result.write + result.timeout,
  }
}

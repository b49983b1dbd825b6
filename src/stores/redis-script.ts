import { createHash } from 'node:crypto'
import type { RedisClient } from '../db/redis.js'
import { SCRIPT } from './redis-lua.js'

const SHA = createHash('sha1').update(SCRIPT).digest('hex')

/** The script's input for one counter. */
export interface ScriptCall {
  readonly key: string
  /** What the script is to do with it; `redis-lua.ts` has the form. */
  readonly asks: string
}

/**
 * Advances the counters, and returns what was stored for each before.
 *
 * One run takes all counters, except in a cluster, where each counter has a run of its own, which reaches its node even
 * while slots are moving.
 *
 * @throws the error of any run; other counters may have been advanced even so
 */
export async function runScript(
  client: RedisClient,
  calls: readonly ScriptCall[],
  nowMs: number,
): Promise<readonly unknown[]> {
  if (client.isCluster) return runOneByOne(client, calls, nowMs)
  try {
    return await evaluateScript(client, calls, nowMs)
  } catch (error) {
    if (!isAcrossSlots(error)) throw error
    return runOneByOne(client, calls, nowMs)
  }
}

async function runOneByOne(client: RedisClient, calls: readonly ScriptCall[], nowMs: number): Promise<unknown[]> {
  const answers = await Promise.all(calls.map((call) => evaluateScript(client, [call], nowMs)))
  return answers.flat()
}

async function evaluateScript(client: RedisClient, calls: readonly ScriptCall[], nowMs: number): Promise<unknown[]> {
  const given = [...calls.map(({ key }) => key), nowMs, ...calls.map(({ asks }) => asks)]
  let answers: unknown
  try {
    answers = await client.evalsha(SHA, calls.length, ...given)
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    answers = await client.eval(SCRIPT, calls.length, ...given)
  }
  if (!Array.isArray(answers) || answers.length !== calls.length) throw new Error('Redis did not answer for every key')
  return answers
}

/** Returns whether the server does not know the script: it was restarted, or its scripts were flushed. */
function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** Returns whether the server is a proxy before a cluster. */
function isAcrossSlots(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('CROSSSLOT')
}

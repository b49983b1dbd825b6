import { createHash } from 'node:crypto'
import { Writable } from 'node:stream'
import { forEachKey, keyNodes, nodeForTag, RedisConnection } from '../../../database/redis.js'
import type { RedisClient } from '../../../database/redis-client.js'
import { allDone } from '../../../ground/all-done.js'
import { counterKey, counterPrefix, validateNamespace } from '../../../ground/storable.js'
import type { Check, Decision, Settlement } from '../../algorithm.js'
import { failedAfter, failedLeaving, PartlySettledError } from '../../batch-store.js'
import { FailingCounters } from '../failing-counters.js'
import { assignDecisions, type CheckGroup, groupChecks } from '../groups.js'
import type { Store } from '../store.js'
import { REDIS_COUNTERS, type RedisCounter, type ScriptCall } from './redis-counters.js'
import { SCRIPT } from './redis-lua.js'

export interface RedisStoreOptions {
  /**
   * `redis://…` or `rediss://…`; for a cluster several of them separated by commas, or one with `?cluster=true`. Or an
   * ioredis client or cluster, which stays open when the store is closed.
   */
  readonly redis: string | RedisClient
  /** Separates the counters of apps that share a Redis: 1 to 50 letters, digits, `_`, `.` or `-`. */
  readonly namespace?: string | undefined
}

/** A client may have counters in thousands of rules: other commands run between so many. */
const RESET_AT_ONCE = 500

/**
 * Counters in Redis or Valkey, exact over any number of processes: a script advances a counter in one step.
 *
 * A key is `fsr:<namespace>:<letter of the algorithm>:{<key of the check>}`; a check's key that is too long or not
 * well-formed ends with its hash. `fsr:<namespace>:resets` counts resets. In a cluster every run of the script names
 * one key, and the batches of its nodes are separate. Every counter expires.
 *
 * A key that holds something else, such as a list, is left as it is. Its counter is a part of the store that fails alone.
 */
export class RedisStore implements Store {
  /**
   * The number is enough that a check seldom waits for batches on their way to a remote Redis; more would only make the
   * batches smaller. On one machine 1 to 8 make no difference.
   */
  readonly concurrency = 2
  readonly isOrdered = true
  readonly #connection: RedisConnection
  readonly #prefix: string
  readonly #resetsKey: string
  readonly #failing = new FailingCounters(counterKey)

  constructor({ redis, namespace }: RedisStoreOptions) {
    validateNamespace(namespace)
    this.#connection = new RedisConnection(redis)
    this.#prefix = `fsr:${namespace ?? ''}:`
    this.#resetsKey = `${this.#prefix}resets`
  }

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    const decisions: Decision[] = []
    try {
      await this.#checkAll(checks, nowMs, decisions)
      return decisions
    } catch (error) {
      throw failedAfter(error, decisions)
    }
  }

  async #checkAll(checks: readonly Check[], nowMs: number, decisions: Decision[]): Promise<void> {
    const client = await this.#connection.client()
    const grouping = { storedKey: counterKey, counters: REDIS_COUNTERS }
    const areFailing = this.#failing.areAll(checks)
    let cause: Error | undefined
    for (let indexes = [...checks.keys()]; indexes.length > 0; ) {
      const { byAlgorithm, left } = groupChecks(checks, indexes, grouping)
      const targets: [RedisCounter, string, CheckGroup][] = []
      for (const [algorithm, groups] of byAlgorithm) {
        for (const [key, group] of groups) targets.push([REDIS_COUNTERS[algorithm], key, group])
      }
      const calls = targets.map(([counter, key, group]) => counter.call(this.#keyFor(counter, key), group, nowMs))
      const decide = (index: number, stored: unknown) => {
        const [counter, key, group] = targets[index] ?? []
        if (counter === undefined || key === undefined || group === undefined) return
        const error = this.#findError(key, stored)
        if (error === undefined) assignDecisions(group, counter.answer(stored, group, nowMs), decisions)
        else cause = error
      }
      await this.#connection.explained(() => runScript(client, calls, nowMs, decide))
      indexes = left
    }
    if (cause !== undefined) throw this.#failing.rejection(checks, decisions, cause, areFailing)
    this.#failing.advanced(checks)
  }

  async settle(settlements: readonly Settlement[], nowMs: number): Promise<void> {
    const left = new Set(settlements)
    try {
      await this.#settleAll(settlements, nowMs, left)
    } catch (error) {
      throw failedLeaving(error, [...left])
    }
  }

  async #settleAll(settlements: readonly Settlement[], nowMs: number, left: Set<Settlement>): Promise<void> {
    const client = await this.#connection.client()
    const areFailing = this.#failing.areAll(settlements)
    const calls = settlements.map((settlement) => {
      const counter = REDIS_COUNTERS[settlement.policy.algorithm]
      return counter.settle(this.#keyFor(counter, counterKey(settlement.key)), settlement)
    })
    if (calls.length === 0) return
    let cause: Error | undefined
    const note = (index: number, stored: unknown) => {
      const settlement = settlements[index]
      if (settlement === undefined) return
      const error = this.#findError(counterKey(settlement.key), stored)
      if (error === undefined) left.delete(settlement)
      else cause = error
    }
    await this.#connection.explained(() => runScript(client, calls, nowMs, note))
    if (cause !== undefined) throw areFailing ? cause : new PartlySettledError([...left], cause)
  }

  /** Returns the error of one counter, and notes that it fails alone. */
  #findError(storedKey: string, answer: unknown): Error | undefined {
    if (!Array.isArray(answer)) return undefined
    this.#failing.add(storedKey, 'a key that holds no counter')
    return new Error(`Redis: ${String(answer[0])}`)
  }

  async reset(keys: readonly string[]): Promise<void> {
    const client = await this.#connection.client()
    for (let from = 0; from < keys.length; from += RESET_AT_ONCE) {
      const stored = keys
        .slice(from, from + RESET_AT_ONCE)
        .flatMap((key) => Object.values(REDIS_COUNTERS).map((counter) => this.#keyFor(counter, counterKey(key))))
      await this.#connection.explained(() => Promise.all(stored.map((key) => client.del(key))))
    }
    await this.#connection.explained(() => client.incr(this.#resetsKey))
  }

  /** Reads the names of all keys in the Redis, a part at a time, which delays other commands little. */
  async resetAll(prefixes: readonly string[]): Promise<void> {
    const client = await this.#connection.client()
    const begins = prefixes.map(counterPrefix)
    const pattern = `${this.#prefix}?:{${sharedBeginning(begins)}`
    await this.#connection.explained(() =>
      forEachKey(client, pattern, async (keys) => {
        const names = keys.map((key) => [key, key.slice(this.#prefix.length + '?:{'.length)] as const)
        const found = names.filter(([, name]) => begins.some((begin) => name.startsWith(begin)))
        await Promise.all(found.map(([key]) => client.del(key)))
      }),
    )
    await this.#connection.explained(() => client.incr(this.#resetsKey))
  }

  async resets(): Promise<number> {
    const client = await this.#connection.client()
    return Number(await this.#connection.explained(() => client.get(this.#resetsKey)))
  }

  /** Returns the name of a counter that fails, or the node of a cluster that has its slot; one server has no other parts. */
  partOf(key: string): string {
    const client = this.#connection.opened
    return this.#failing.partOf(key) ?? (client?.isCluster ? nodeForTag(client, counterKey(key)) : '')
  }

  /** @throws InvalidSettingError when the package ioredis is needed and not installed */
  load(): Promise<unknown> {
    return this.#connection.load()
  }

  /** Resolves when Redis can be reached, or the store is closed. */
  ready(): Promise<void> {
    return this.#connection.ready()
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  #keyFor({ letter }: RedisCounter, storedKey: string): string {
    return `${this.#prefix}${letter}:{${storedKey}}`
  }
}

/** Returns what some texts all begin with. */
function sharedBeginning([first = '', ...others]: readonly string[]): string {
  const length = [...first].findIndex((_, index) => others.some((other) => other[index] !== first[index]))
  return length === -1 ? first : first.slice(0, length)
}

const SHA = createHash('sha1').update(SCRIPT).digest('hex')

/**
 * Advances the counters.
 *
 * One run takes all counters, except in a cluster, where each counter has a run of its own, which reaches its node even
 * while slots are moving.
 *
 * @param done receives what was stored for each counter before, or a list with its error
 * @throws the error of any run; others are done even so
 */
async function runScript(
  client: RedisClient,
  calls: readonly ScriptCall[],
  nowMs: number,
  done: (index: number, stored: unknown) => void = () => undefined,
): Promise<void> {
  if (client.isCluster && calls.length > 1) return runOneByOne(client, calls, nowMs, done)
  try {
    for (const [index, stored] of (await evaluateScript(client, calls, nowMs)).entries()) done(index, stored)
  } catch (error) {
    if (!isAcrossSlots(error)) throw error
    return runOneByOne(client, calls, nowMs, done)
  }
}

async function runOneByOne(
  client: RedisClient,
  calls: readonly ScriptCall[],
  nowMs: number,
  done: (index: number, stored: unknown) => void,
): Promise<void> {
  const answers = sendTogether(client, () => calls.map((call) => evaluateScript(client, [call], nowMs)))
  const runs = answers.map(async (answer, index) => {
    const [stored] = await answer
    done(index, stored)
  })
  await allDone(runs)
}

/** Sends what goes to one node in one system call, which otherwise each command would be. */
function sendTogether<Answer>(client: RedisClient, send: () => Answer): Answer {
  // A node has no connection before it is first asked.
  const streams = keyNodes(client).map((node): unknown => Reflect.get(node, 'stream'))
  const sockets = streams.filter((stream) => stream instanceof Writable)
  try {
    for (const socket of sockets) socket.cork()
    return send()
  } finally {
    for (const socket of sockets) socket.uncork()
  }
}

async function evaluateScript(client: RedisClient, calls: readonly ScriptCall[], nowMs: number): Promise<unknown[]> {
  const keysAndTasks = [...calls.map(({ key }) => key), nowMs, ...calls.map(({ task }) => task)]
  let answers: unknown
  try {
    answers = await client.evalsha(SHA, calls.length, ...keysAndTasks)
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    answers = await client.eval(SCRIPT, calls.length, ...keysAndTasks)
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

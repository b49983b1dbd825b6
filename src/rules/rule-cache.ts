import type { LoadedRules } from './rule-repository.js'
import type { RuleSet } from './rule-set.js'

export interface RuleCacheOptions {
  /** @param previous what was loaded before, to be answered again where nothing changed */
  readonly load: (previous: LoadedRules | undefined) => Promise<LoadedRules>
  readonly compile: (rules: LoadedRules['rules']) => RuleSet
  /** How long a set is used before it is read again, in milliseconds. */
  readonly ttlMs: number
  /** How long a request waits for the table, in milliseconds, before it goes on with the last good set. */
  readonly timeoutMs: number
  readonly log: {
    error(details: object, message: string): void
    warn(details: object, message: string): void
    info(message: string): void
  }
}

/** How long a table that failed is left alone. */
const RETRY_MS = 1_000

/**
 * The active rules in process memory. One load at a time; an invalidation during a load makes it read again, so that
 * whoever asks afterwards sees the change. A load that fails keeps the last good set, or none where there was none.
 */
export class RuleCache {
  readonly #options: RuleCacheOptions
  #set: RuleSet
  #loaded: LoadedRules | undefined
  #freshFromMs = Number.NaN
  #freshUntilMs = Number.NaN
  #loading: Promise<RuleSet> | undefined
  #invalidations = 0
  #isFailing = false
  #reported = new Set<string>()

  constructor(options: RuleCacheOptions) {
    this.#options = options
    this.#set = options.compile([])
  }

  /** The rules in force: at once while they are fresh, else after reading them. Never rejects. */
  current(nowMs: number): RuleSet | Promise<RuleSet> {
    if (nowMs >= this.#freshFromMs && nowMs < this.#freshUntilMs) return this.#set
    const loading = this.#load(nowMs)
    // While the table fails nobody waits for it: the set is replaced when it answers.
    return this.#isFailing ? this.#set : this.#untilTimeout(loading, nowMs)
  }

  /** The next request reads the table. */
  invalidate(): void {
    this.#invalidations++
    this.#freshUntilMs = Number.NaN
  }

  /** Reads the table now. */
  reload(nowMs: number): Promise<RuleSet> {
    this.invalidate()
    return this.#load(nowMs)
  }

  #load(nowMs: number): Promise<RuleSet> {
    this.#loading ??= this.#loadUntilSettled(nowMs).finally(() => {
      this.#loading = undefined
    })
    return this.#loading
  }

  async #loadUntilSettled(nowMs: number): Promise<RuleSet> {
    const { load, compile, ttlMs } = this.#options
    for (;;) {
      const invalidations = this.#invalidations
      try {
        const loaded = await load(this.#loaded)
        // Changed while it was read: what was read may be older than the change.
        if (invalidations !== this.#invalidations) continue
        if (loaded !== this.#loaded) this.#set = compile(loaded.rules)
        this.#loaded = loaded
        this.#keepUntil(nowMs, ttlMs)
        this.#report(loaded)
      } catch (error) {
        this.#keepUntil(nowMs, Math.min(ttlMs, RETRY_MS))
        this.#reportFailure(error)
      }
      return this.#set
    }
  }

  #keepUntil(nowMs: number, forMs: number): void {
    this.#freshFromMs = nowMs
    this.#freshUntilMs = nowMs + forMs
  }

  #untilTimeout(loading: Promise<RuleSet>, nowMs: number): Promise<RuleSet> {
    return new Promise((resolve) => {
      // In two halves, as in the limiter: an event loop that was blocked is no outage.
      let halves = 2
      const timer = setTimeout(() => {
        if (--halves > 0) {
          timer.refresh()
          return
        }
        this.#keepUntil(nowMs, RETRY_MS)
        this.#reportFailure(new Error('no answer in time'))
        resolve(this.#set)
      }, this.#options.timeoutMs / 2)
      void loading.then((set) => {
        clearTimeout(timer)
        resolve(set)
      })
    })
  }

  #report({ rejected }: LoadedRules): void {
    const { log } = this.#options
    if (this.#isFailing) log.info('Rate limit rules can be read again')
    this.#isFailing = false
    const complaints = new Set<string>()
    for (const { name, reason } of rejected) {
      const complaint = `${name}: ${reason}`
      complaints.add(complaint)
      if (!this.#reported.has(complaint)) log.warn({ rule: name, reason }, 'Rate limit rule skipped: it is not valid')
    }
    this.#reported = complaints
  }

  #reportFailure(error: unknown): void {
    if (!this.#isFailing) {
      this.#options.log.error({ err: error }, 'Rate limit rules cannot be read: the last good ones stay in force')
    }
    this.#isFailing = true
  }
}

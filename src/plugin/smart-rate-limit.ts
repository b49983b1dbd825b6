import type { FastifyInstance } from 'fastify'
import type { Ask } from '../http/ask.js'
import type { Charges, ChargesLeft } from '../http/charged-units.js'
import type { ConsumedRequest, ConsumeOptions } from '../http/consume.js'
import type { ExplainOptions, Explanation } from '../http/explain/explain.js'
import type { RequestDecision } from '../http/request-decision.js'
import type { AnyRequest } from '../http/request-reply.js'
import type { RouteLimitHook, RouteLimitOptions } from '../http/routes/route-limit.js'
import type { Store } from '../limiter/stores/store.js'
import type { EventLogStats } from '../log/event-log-state.js'
import type { Health } from '../operations/health/health.js'
import type { Preview } from '../reports/preview/preview.js'
import type { ImportOptions, ImportResult } from '../rules/exchange/exchange.js'
import type { RuleDocument } from '../rules/exchange/rule-document.js'
import type { Change, HistoryOptions } from '../rules/history/history.js'
import type { Rule } from '../rules/rule.js'
import type { RateLimitClient } from './client/client.js'
import type { Analytics } from './reports.js'

/** An app of any server, with the decoration of `rateLimitPlugin`. */
export type LimitedApp = Pick<FastifyInstance, 'hasDecorator' | 'smartRateLimit'>

/** The decoration that `rateLimitPlugin` adds to an app. */
export interface SmartRateLimit {
  /** The extended Prisma client. */
  readonly client: RateLimitClient
  readonly rules: {
    /** Drops this process's cache of active rules; the next request reads the table. */
    invalidateCache(): void
    /** Reads the table now and returns the number of active rules. */
    reload(): Promise<number>
    /** Returns the rules in force, in the order in which they are tried. */
    active(): Promise<readonly Rule[]>
    /**
     * Returns the changes of rules and overrides, the newest first.
     *
     * @param name of a rule, or the client of an override (`ip:203.0.113.7`) in any spelling; all changes unless given
     */
    history(name?: string, options?: HistoryOptions): Promise<Change[]>
    /**
     * Undoes one change, with validation; later changes of other fields stay. The history records the revert.
     *
     * @throws RevertError when the change does not exist, or its values were changed again
     */
    revert(changeId: number): Promise<void>
    /** Returns all rules and overrides as a document, to be stored as JSON and imported elsewhere. */
    export(): Promise<RuleDocument>
    /**
     * Makes the rules and overrides equal to those of a document, all or nothing, and returns the changes.
     *
     * @param options `dryRun` only returns the difference; `keep` deletes nothing
     * @throws RuleDocumentError with a message for every invalid place
     */
    import(document: unknown, options?: ImportOptions): Promise<ImportResult>
    /**
     * Returns what an unsaved or edited rule would have done to the requests that the event log recorded in the last
     * `hours` (24 unless given).
     */
    readonly preview: Preview
  }
  readonly analytics: Analytics
  readonly events: {
    /**
     * Resolves when every event recorded so far is in the table, or is counted as lost; and when a write fails, after
     * which these events are tried again.
     */
    flush(): Promise<void>
    stats(): EventLogStats
  }
  readonly store: Store
  /**
   * Returns the state of the parts that this app uses, for a readiness check and for operators. It never rejects, and
   * takes five seconds at most. It asks the mail server once a minute at most.
   */
  health(): Promise<Health>
  /**
   * Creates a hook for single routes, `{ onRequest: app.smartRateLimit.limit({ rate: '5/m' }) }`, or for a scope: a
   * limit with a counter per route. No rule or override changes it, and the event of a request that it refuses tells of
   * it. Its `check` and `peek` are for code in handlers, such as the messages of a WebSocket or the fields of GraphQL.
   *
   * @throws InvalidSettingError for invalid or unknown options
   */
  limit(options: RouteLimitOptions): RouteLimitHook
  /**
   * Returns the decision of the hook or of a limit of the route about a request. Of several decisions it returns the
   * one that refused, else the one with the least remaining, which the headers show too. With `block: false`, `allowed`
   * false means that the request would have been refused. The error of a refused request has it as `decision`. It tells
   * what decided, and about whom: `policy`, `rule`, `client` and `key`, as the event log does.
   *
   * @returns null where no limit has checked the request, or not yet
   */
  decisionOf(request: AnyRequest): RequestDecision | null
  /**
   * Charges the limit of a request, and refuses nothing: no header, no event. For costs that are known late, and for
   * routes that opted out of the hook.
   *
   * @param options `cost`: an integer, 1 unless given
   * @returns null where no limit applies: with `enabled: false`, on skipped paths, for the allow list, for an override
   * that lets the request through
   */
  check: Ask['check']
  /**
   * Reads the state of a request's client, and charges nothing: `count` and `remaining` exclude this request, `allowed`
   * and `retryAfterMs` are the answer it would get.
   */
  peek: Ask['peek']
  /**
   * Charges a request for what it has used, such as `{ tokens: 1834 }`: in every limit of the unit that it met, and in the
   * usage of its client. It may be called any number of times, also while the response is streamed and after it. What exceeds
   * the reservation is taken at once; what was reserved and not charged is given back when the response ends. Without a
   * charge the request keeps its reservation; a charge of 0 gives it back.
   *
   * @param request the request of Fastify, in the process that handles it, up to an hour after its end
   * @param charges whole numbers from 0 on, by unit
   * @returns when it is in the store: how much is left, the least of all limits of the unit; null without a limit, and where
   * the store does not answer within `storeTimeoutMs`. The charge is counted when it answers again
   * @throws InvalidSettingError for a name that is not a unit, an amount that is not a whole number, a request that ended more
   * than an hour ago, or what is no request; then nothing is charged
   */
  charge(request: AnyRequest, charges: Charges): Promise<ChargesLeft>
  /**
   * Decides about a request that this app did not get, such as one that a proxy or another server has, or a message of a
   * socket: by the lists, overrides, rules of all groups and the limit without a rule, as the hook does, with an event in
   * the log. It refuses nothing: the answer has what to send. The routes of this app say nothing about such a request. What
   * rules reserve of another unit than requests stays taken.
   *
   * Rules that count what runs at a time (`concurrency`) or responses (`counts`) are left out, and named in `left_out`.
   *
   * @throws InvalidSettingError for a request that cannot be and unknown fields, and where the limit without a rule is one
   * of those that would be left out
   */
  consume(options: ConsumeOptions): Promise<ConsumedRequest>
  /**
   * Explains which limits a request would meet, in the order of deciding, and why the others do not decide, with what
   * the client has used. Nothing is sent or charged, and no hook of the app runs. Limits that are hooks of a scope, and
   * the routes that were declared before the plugin, are not part of it.
   *
   * @throws InvalidSettingError for a request that cannot be: a path without a slash at its beginning, a wrong method or
   * address
   */
  explain(options: ExplainOptions): Promise<Explanation>
  /**
   * Resets the counters of a client, as the event log spells it (`ip:203.0.113.7`, `user.org:acme`): those of all limits,
   * rules and overrides. A key that names a rule (`rule:api:user:7`) resets those of that rule. Also resets a single
   * counter, by its key in the store. Where addresses are not stored, the key may have the address or its pseudonym.
   *
   * @throws InvalidSettingError for a network, as the log has with `privacy: { addresses: 'truncated' }`
   * @throws the error of a store that cannot be reached
   */
  reset(key: string): Promise<void>
}

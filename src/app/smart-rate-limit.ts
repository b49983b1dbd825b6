import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Analytics } from '../analytics/analytics.js'
import type { RateLimitClient } from '../client.js'
import type { EventLogStats } from '../events/event-log.js'
import type { ImportOptions, ImportResult } from '../exchange/exchange.js'
import type { RuleDocument } from '../exchange/rule-document.js'
import type { Health } from '../health/health.js'
import type { Change, HistoryOptions } from '../history/history.js'
import type { RouteLimitOptions } from '../http/route-limit.js'
import type { Decision } from '../limiter/algorithm.js'
import type { Preview } from '../preview/preview.js'
import type { Rule } from '../rules/rule.js'
import type { Store } from '../stores/store.js'

/** What `rateLimitPlugin` decorates an app with. */
export interface SmartRateLimit {
  /** The extended Prisma client. */
  readonly client: RateLimitClient
  readonly rules: {
    /** Drops this process's cache of active rules: the next request reads the table. */
    invalidateCache(): void
    /** Reads the table now and answers how many active rules there are. */
    reload(): Promise<number>
    /** The rules in force, in the order they are tried. */
    active(): Promise<readonly Rule[]>
    /**
     * The changes of rules and overrides, the newest first.
     *
     * @param name of a rule, or the client of an override (`ip:203.0.113.7`); all of them unless given
     */
    history(name?: string, options?: HistoryOptions): Promise<Change[]>
    /**
     * Undoes one change, through the validation; what was changed since in other fields stays. It is recorded itself.
     *
     * @throws RevertError when there is no such change, or what it wrote was changed again
     */
    revert(changeId: number): Promise<void>
    /** All rules and overrides as a document, to be kept as JSON and imported elsewhere. */
    export(): Promise<RuleDocument>
    /**
     * Makes the rules and overrides equal to those of a document, all or nothing, and answers what that changed.
     *
     * @param options `dryRun` only tells the difference; `keep` deletes nothing
     * @throws RuleDocumentError with a message for every wrong place
     */
    import(document: unknown, options?: ImportOptions): Promise<ImportResult>
    /**
     * What a rule that is not saved, or not so, would have done to the requests that the event log recorded in the last
     * `hours` (24 unless given).
     */
    readonly preview: Preview
  }
  readonly analytics: Analytics
  readonly events: {
    /** Resolves when every event recorded so far is in the table, or was counted as lost. */
    flush(): Promise<void>
    stats(): EventLogStats
  }
  readonly store: Store
  /**
   * How the parts do that this app uses: for a readiness check, and for operators. It never rejects, and takes five
   * seconds at most. The mail server is asked once a minute at most.
   */
  health(): Promise<Health>
  /**
   * Makes a hook for single routes, `{ onRequest: app.smartRateLimit.limit({ rate: '5/m' }) }`, or for a scope: a limit
   * with a counter per route. It logs no event, and no rule or override changes it.
   *
   * @throws InvalidSettingError for options that are wrong or unknown
   */
  limit(options: RouteLimitOptions): OmitThisParameter<onRequestHookHandler>
  /**
   * Returns what the hook or a limit of the route decided about a request: where several did, the decision of the one
   * that refused it, else the one with the least left, which the headers show too. With `block: false`, `allowed` false
   * says that the request would have been refused. Errors that end a refused request have it as `decision`.
   *
   * @returns null where nothing checked the request, or has yet
   */
  decisionOf(request: FastifyRequest): Decision | null
  /**
   * Uses the limit that holds for a request, and refuses nothing: no header, no event. For what a request turns out to
   * cost, and for routes that opted out of the hook.
   *
   * @param options `cost`: an integer, 1 unless given
   * @returns null where nothing limits the request: with `enabled: false`, on skipped paths, for the allow list,
   * for an override that lets through
   */
  check(request: FastifyRequest, options?: { readonly cost?: number }): Promise<Decision | null>
  /**
   * Looks where a request's client stands, and uses nothing: `count` and `remaining` are without this request, `allowed`
   * and `retryAfterMs` what it would be told.
   */
  peek(request: FastifyRequest): Promise<Decision | null>
  /**
   * Forgets the counters of a client, by its key as the event log has it (`ip:203.0.113.7`, `rule:api:user:7`): those
   * of all prefixes and routes. Also a single counter, by its key in the store.
   *
   * @throws what the store throws when it cannot be reached
   */
  reset(key: string): Promise<void>
}

import type { GeoOptions } from '../../clients/geo.js'
import type { PrivacySettingOptions } from '../../clients/privacy-settings.js'
import type { RedisClient } from '../../database/redis-client.js'
import type { Reserve } from '../../http/cost.js'
import type { HeaderVariant } from '../../http/header-variant.js'
import type { KeyFunction } from '../../http/kind-client.js'
import type { NoticeFunction } from '../../http/notices.js'
import type { RefusalFunction, SkipFunction } from '../../http/on-request.js'
import type { RateFunction } from '../../http/policy-limits.js'
import type { UserFunction } from '../../http/request-user.js'
import type { Algorithm } from '../../limiter/algorithm.js'
import type { CountingOptions } from '../../limiter/core/counting-options.js'
import type { Store } from '../../limiter/stores/store.js'
import type { EventDetail } from '../../log/collapsing-buffer.js'
import type { AlertSettingOptions } from '../../operations/alerts/channels/channels.js'
import type { ListsOptions } from '../../operations/lists/list-settings.js'
import type { MetricsOptions } from '../../operations/metrics/targets.js'
import type { ScheduleOptions } from '../../operations/schedule/schedule-options.js'
import type { EventsOptions, RateLimitClient } from '../client/client.js'

/** The limit of requests that no rule matches. */
export interface MiddlewareOptions {
  /** The store of the counters; `database` by default. Those in `memory` are each process's own. */
  backend?: 'database' | 'memory' | 'redis' | Store | undefined
  /** A rate string, or a function that returns one for a request, or null for no limit; `100/m` by default. */
  defaultRate?: string | RateFunction | undefined
  /** Rates by path prefix: `/auth` covers `/auth` and `/auth/…`, `/auth/` covers `/auth/…`; the longest wins. */
  rateLimits?: Record<string, string> | undefined
  /** The algorithm that counts requests; `fixed_window` by default. */
  algorithm?: Algorithm | undefined
  /**
   * The kind of clients that are counted: `ip` (the default), `user`, `user.<field>` (a text or an integer of what the
   * option `user` answers), `route`, `header:<Name>` or `cookie:<name>`, up to three of them with `+` between, `all` (one
   * counter that all share), or a function; the IP as a fallback.
   */
  key?: string | KeyFunction | undefined
  /** What counts: `requests` (the default), or the responses with some statuses: `401,403`, `4xx,5xx`. */
  counts?: string | undefined
  /** What the rates count: `requests` (the default), or what the app charges later, such as `tokens`. */
  unit?: string | undefined
  /**
   * How much of another unit than requests a request takes in advance: 0 to 2147483647, or a function of the request that
   * returns it; may be async. 0 by default: a request passes while anything is left.
   */
  reserve?: Reserve | undefined
  /**
   * The percentages of a window at which a client is near its limit: one to three whole ones, 1 to 100, rising, such as
   * `80,100`; none by default. When a client has first used so much, `onNotice` is called, and one message goes through the
   * channels of alerts.
   */
  noticeAt?: string | undefined
  /** Whether requests above the limit are refused; `false` only counts them. `true` by default. */
  block?: boolean | undefined
  /**
   * What an address may request in all, whatever else its requests are counted by: a rate such as `600/m`; off by
   * default. It refuses also where `block` is `false`.
   */
  ceiling?: string | undefined
  /**
   * The time for which a process may use a share of a busy client's limit without asking the store: `100ms` to `2s`; off
   * by default. For limits of one fixed window, no calendar month; all others ask the store.
   */
  lease?: string | undefined
  /** Path prefixes that are not limited, as in `rateLimits`. */
  skipPaths?: string[] | undefined
  /** Addresses, CIDR networks and `list:<name>` of `lists` that are not limited. */
  allowList?: string[] | undefined
  /** Addresses, CIDR networks and `list:<name>` that are always refused, even where the allow list has them. */
  denyList?: string[] | undefined
}

/** The options of `rateLimitPlugin`. An absent option is read from its environment variable. */
export interface RateLimitOptions extends AlertSettingOptions, CountingOptions, PrivacySettingOptions {
  /**
   * Logs every checked request, or with `'blocked'` only refusals and would-be refusals; `false` by default. An object says
   * how: `collapsed` makes one row of requests that are alike, `sums` adds up allowed requests without their clients; a row
   * each unless given.
   */
  logEvents?: boolean | 'blocked' | Partial<EventDetail> | undefined
  /** Whether the rules and overrides of the database apply; without it their tables are never read. */
  useDynamicRules?: boolean | undefined
  /** The time for which rules are used before the table is read again, in seconds, 0 to 86400; 60 by default. */
  ruleCacheTimeout?: number | undefined
  /** The limit of requests that no rule matches. */
  middleware?: MiddlewareOptions | undefined
  /**
   * The database of rules, overrides, events and counters: `file:./ratelimit.db` (the default), `postgresql://…`, or a
   * client made by `createRateLimitClient`.
   */
  database?: string | RateLimitClient | undefined
  /**
   * The database of the event log and of usage, beside that of rules and counters, for much traffic:
   * `{ database: 'postgresql://…' }`. By default it is the same. Events that are in the other one stay there.
   */
  events?: EventsOptions | undefined
  /**
   * Files in the format of MaxMind DB that know the country and the network operator of addresses:
   * `{ country: './country.mmdb', asn: './asn.mmdb' }`, for `client.country` and `client.asn` in conditions, and for the
   * pages. They are read again when they are replaced. Needs maxmind. Off by default.
   */
  geo?: GeoOptions | undefined
  /**
   * The Redis of the counters: `redis://…` or `rediss://…` (several with commas between, or one with `?cluster=true`, for
   * a cluster), or a client or cluster of ioredis, which stays open when the app closes. `middleware.backend: 'redis'` needs it.
   */
  redis?: string | RedisClient | undefined
  /** Whether clients identified by a header are logged and counted by an HMAC of it, for headers that are secrets. */
  hashHeaderKeys?: boolean | undefined
  /** Returns the user of a request, an object with `id`, or the id alone; `request.user` by default. */
  user?: UserFunction | undefined
  /**
   * Returns true for requests that the plugin leaves alone, as on skipped paths; may be async. A failure is logged once,
   * and the request is counted. Limits of single routes hold in any case.
   */
  skip?: SkipFunction | undefined
  /**
   * Receives every refused request, those of limits of single routes included, with its decision, before the answer is
   * sent: `(request, { policy, rule, client, key }) => …`. It is not waited for; a failure is logged once.
   */
  onRefused?: RefusalFunction | undefined
  /**
   * Receives each client that has used a share of a window of a limit with `noticeAt`, once over all processes:
   * `(client, { policy, unit, rate, window, count }, share) => …`. It is not waited for; a failure is logged once.
   */
  onNotice?: NoticeFunction | undefined
  /**
   * The hook that checks requests: `onRequest` by default. `preHandler` is for hosts whose users are known only then:
   * earlier 400s and 401s escape the limit.
   */
  hook?: 'onRequest' | 'preHandler' | undefined
  /** The headers of answers: X-RateLimit (`legacy`, the default), RateLimit and RateLimit-Policy (`draft`), `both` or `none`. */
  headers?: HeaderVariant | undefined
  /**
   * The most rows of events, and of sums of usage, buffered while the database is busy or away; further ones go to the spool, or are dropped and
   * counted; 20000 by default.
   */
  eventBuffer?: number | undefined
  /**
   * A local folder, such as `./ratelimit-events`, for the events and the usage that the database does not take: at most 256 MiB per
   * process, which it takes when it is back, or when the next process starts. Processes can share it. Off by default.
   */
  eventSpool?: string | undefined
  /**
   * The units whose usage is kept, in sums per client, policy and UTC day: `['tokens']`; `false` for none. By default
   * every unit but `requests`, where the app stores anything in the database. It needs no event log.
   */
  usage?: readonly string[] | false | undefined
  /** The time for which usage is kept after its month, in days; `400d` by default. */
  keepUsageFor?: string | undefined
  /**
   * Lists of addresses and networks by name, for `inList(client.ip, 'tor')` in conditions and `list:partners` in allow and
   * deny lists: an array, a file with one entry a line (`./partners.txt`), or an `https://` URL of one. At most 32 MB and
   * 1,000,000 entries each.
   */
  lists?: ListsOptions | undefined
  /** How often a list is fetched from its URL, in seconds, from 1; 3600 by default. Files are read when they change. */
  listsRefresh?: number | undefined
  /**
   * Counts decisions, measures how long they take, and reports on the store, the events and the rules:
   * `{ prometheus: register }` or `{ openTelemetry: true }`. Needs prom-client, or @opentelemetry/api. Off by default.
   */
  metrics?: MetricsOptions | undefined
  /**
   * The jobs that this process runs, and when: `{ alerts: '0,30 * * * *', pruneEvents: '17 3 * * *' }`. One of several
   * processes with the same schedule runs a job.
   */
  schedule?: ScheduleOptions | undefined
}

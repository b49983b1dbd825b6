/** The line at start that says what is in force. */

import type { FastifyInstance } from 'fastify'
import type { Database } from '../../database/database.js'
import { redactUrl } from '../../database/database-url.js'
import { parseRedisUrl } from '../../database/redis-client.js'
import type { Component } from '../../ground/components.js'
import { trustedProxies } from '../../http/host-app.js'
import { MemoryStore } from '../../limiter/stores/memory/memory-store.js'
import { RedisStore } from '../../limiter/stores/redis/redis-store.js'
import { rulesInForce } from '../../rules/rule-groups.js'
import type { CurrentSnapshot } from '../../rules/snapshot/current-snapshot.js'
import { databasesInUse } from '../settings/databases-in-use.js'
import type { Settings } from '../settings/resolve.js'

interface StartLineParts {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly database: Database
  readonly current: CurrentSnapshot
}

/** Creates the component that logs the line when the app is ready. It asks nothing, so that nothing can keep it. */
export function createStartLine(parts: StartLineParts): Component {
  return { start: () => parts.app.log.info(`Rate limits: ${inForceWords(parts)}`) }
}

/** Returns what is in force, without names and passwords: `database file:./ratelimit.db, 3 rules, 2 overrides, …`. */
function inForceWords({ app, settings, database, current }: StartLineParts): string {
  if (!settings.enabled) return 'off, since "enabled" is false'
  const inUse = databasesInUse(settings, database)
  const hasOther = database.log !== database && inUse.includes(database.log)
  const words = [
    ...countersWords(settings),
    ...(inUse.includes(database) ? [`database ${redactUrl(database.url)}`] : []),
    ...rulesWords(settings, current),
    `events ${eventsWords(settings.logEvents)}${hasOther ? ` in ${redactUrl(database.log.url)}` : ''}`,
    `proxies trusted: ${trustedProxies(app)}`,
  ]
  return words.join(', ')
}

/** Returns where the counters are; nothing where they are in the database. */
function countersWords({ middleware: { backend }, redis }: Settings): string[] {
  if (backend === 'database') return []
  if (backend === 'memory' || backend instanceof MemoryStore) return ['counters in memory']
  if (backend !== 'redis') return [`counters in ${backend instanceof RedisStore ? 'Redis' : 'a store of the app'}`]
  if (typeof redis !== 'string') return ['counters in Redis']
  return [`counters in ${parseRedisUrl(redis).urls.map(redactUrl).join(' ')}`]
}

function eventsWords(logged: Settings['logEvents']): string {
  if (logged === 'blocked') return 'of refusals only'
  if (typeof logged === 'boolean') return logged ? 'on' : 'off'
  return `on (allowed: ${logged.allowed}, refused: ${logged.refused})`
}

function rulesWords({ useDynamicRules, clock }: Settings, current: CurrentSnapshot): string[] {
  if (!useDynamicRules) return ['static limits only']
  if (current.seenAtMs === undefined) return ['rules and overrides not known yet']
  const inForce = current.lastGood()
  return [counted(rulesInForce(inForce, clock.now()).length, 'rule'), counted(inForce.overrides.size, 'override')]
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** The environment variables of what concerns counting: plain data, so that the help of commands loads no validation. */
import { DEFAULT_SCHEMA } from '../../database/database-url.js'
import { InvalidSettingError } from '../../ground/errors.js'

/** A variable that is used where its option is absent. */
export interface Variable {
  readonly variable: string
  /** Describes it in the help of commands. */
  readonly help?: string
}

export const COUNTING_VARIABLES = {
  enabled: { variable: 'RATELIMIT_ENABLE' },
  middleware: { variable: 'RATELIMIT_MIDDLEWARE' },
  onStoreError: { variable: 'RATELIMIT_ON_STORE_ERROR' },
  database: {
    variable: 'RATELIMIT_DATABASE_URL',
    help: 'database, file:… or postgresql://… (default: file:./ratelimit.db)',
  },
  redis: { variable: 'RATELIMIT_REDIS_URL', help: 'Redis, such as redis://127.0.0.1:6379' },
  schema: { variable: 'RATELIMIT_SCHEMA', help: `PostgreSQL schema of the tables (default: ${DEFAULT_SCHEMA})` },
  hashSecret: {
    variable: 'RATELIMIT_HASH_SECRET',
    help: 'secret of the HMACs that replace addresses and header values',
  },
  privacy: {
    variable: 'RATELIMIT_PRIVACY_ADDRESSES',
    help: 'what is stored of addresses: full (default), truncated or pseudonym',
  },
  ipv6Subnet: {
    variable: 'RATELIMIT_IPV6_SUBNET',
    help: 'leading bits of an IPv6 address that identify a client (default: 64)',
  },
} as const satisfies Readonly<Record<string, Variable>>

/**
 * Parses `RATELIMIT_MIDDLEWARE`.
 *
 * @throws InvalidSettingError for what is not a JSON object
 */
export function parseMiddlewareVariable(json: string): Readonly<Record<string, unknown>> {
  let parsed: unknown
  try {
    parsed = JSON.parse(json)
  } catch {
    parsed = undefined
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new InvalidSettingError(
      `Setting "RATELIMIT_MIDDLEWARE" is ${json.slice(0, 80)}: give a JSON object such as {"DEFAULT_RATE":"100/m"}`,
    )
  }
  return Object.fromEntries(Object.entries(parsed))
}

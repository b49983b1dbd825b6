import type { FastifyInstance, FastifyRequest } from 'fastify'
import { CLIENT_HEADER } from './load.js'

/** A database of its own for one measurement. */
export interface Place {
  /** The URL of the database; empty when the row needs none. */
  readonly url: string
  /** The PostgreSQL schema and the prefix of keys: letters, digits and underscores. */
  readonly name: string
  /** The folder of rate-limiter-flexible's generated Prisma client; empty when the row needs none. */
  readonly prismaClient: string
}

export type Need = 'sqlite' | 'postgresql' | 'redis'

/** One server of the comparison. */
export interface Row {
  readonly id: string
  readonly title: string
  /** The row without a limiter that this one is compared with; it has the same requests and answers. */
  readonly bare: 'bare' | 'bare-refused'
  /** The same row without its event log. */
  readonly withoutEvents?: string
  readonly needs?: Need
  /** The requested paths; `/` by default. */
  readonly paths?: readonly string[]
  readonly needsPrisma?: true
  /** Registers the limiter of this row on an app, before its routes. */
  register(app: FastifyInstance, place: Place): Promise<void>
}

/** A limit that is practically never reached. */
export const LIMIT = 1_000_000_000
/** The path whose limit is exhausted after one request. */
export const FULL_PATH = '/full'
/** The share of requests for `FULL_PATH` in the rows that refuse. */
export const REFUSED_SHARE = 0.9

/** The path below which every id has a route. */
export const THINGS_PATH = '/things/'
/** The requested paths of a row that refuses, in turn. */
export const MOSTLY_FULL: readonly string[] = ['/', ...Array<string>(9).fill(FULL_PATH)]

/** Returns the requested paths of a row, in turn; a path that ends with `NEW_ENDING` is another one each time. */
export function pathsOf({ paths = ['/'] }: Row): readonly string[] {
  return paths
}

export function clientKey(request: FastifyRequest): string {
  return String(request.headers[CLIENT_HEADER])
}

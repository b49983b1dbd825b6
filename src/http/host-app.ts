/** The checks of the app, once, at registration: its router, its scope, and what it trusts. */

import { createRequire } from 'node:module'
import type { FastifyInstance } from 'fastify'
import { InvalidSettingError } from '../ground/errors.js'
import { countOf } from '../ground/number-text.js'

/** The first find-my-way that parses targets with a scheme as `request-path.ts` does. */
const MIN_ROUTER = [9, 9] as const

/**
 * Refuses an older router: a target such as `http://host?x=/login` would reach `/login` past its limit. Bundled code
 * has no version to read, and is not checked.
 *
 * @throws InvalidSettingError naming the remedy
 */
export function validateRouter(version = routerVersion()): void {
  const [major = 0, minor = 0] = version?.split('.').map(Number) ?? MIN_ROUTER
  if (major > MIN_ROUTER[0] || (major === MIN_ROUTER[0] && minor >= MIN_ROUTER[1])) return
  throw new InvalidSettingError(
    `Fastify's router find-my-way ${version} reads some request targets as other paths than limits do: run "npm update find-my-way", for ${MIN_ROUTER.join('.')} or later; where another package pins it, put "overrides": { "find-my-way": "^${MIN_ROUTER.join('.')}.0" } into package.json`,
  )
}

function routerVersion(): string | undefined {
  try {
    const requireFromFastify = createRequire(createRequire(import.meta.url).resolve('fastify'))
    const { version }: { version: string } = requireFromFastify('find-my-way/package.json')
    return version
  } catch {
    return undefined
  }
}

/**
 * Warns of a plugin that hides the hook from the rest of the app: without `fastify-plugin` it has a scope of its own,
 * though its routes resemble all others. With a prefix, the limits are meant for the scope.
 */
export function warnOfScope(app: FastifyInstance): void {
  if (isRoot(app) || app.prefix !== '') return
  // The scope's own name comes first, before those of plugins registered in it.
  const [parent = ''] = app.pluginName.split(' -> ')
  app.log.warn(
    `Rate limits cover only the plugin that registers rateLimitPlugin (${parent}): 404s and routes outside of that plugin have no limit. Wrap that plugin in fastify-plugin, or register rateLimitPlugin on the app itself`,
  )
}

/** Returns whether the app is the root: a scope inherits from the app around it. */
function isRoot(app: FastifyInstance): boolean {
  return !('pluginName' in Object.getPrototypeOf(app))
}

/** The first release that ignores a number as `trustProxy`. */
const IGNORES_A_NUMBER = [5, 12, 1] as const

/** Addresses of documentation, which no proxy has. */
const STRANGERS = ['203.0.113.7', '2001:db8::7'] as const

/**
 * Warns of a `trustProxy` that trusts every peer, by which clients choose the address that counts them, and of a number
 * that Fastify ignores, by which all clients are counted as the proxy.
 */
export function warnOfTrustedPeers(app: FastifyInstance): void {
  const trusted = optionsFor(app)?.trustProxy
  const remedy = "Set trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8']"
  if (typeof trusted === 'number' && trusted > 0 && !trustsHops(app)) {
    app.log.warn(
      `Rate limits count a proxy as the client: trustProxy is ${trusted}, and Fastify ${app.version} ignores a number. ${remedy}`,
    )
    return
  }
  const trusts = whyAllTrusted(app, trusted)
  if (trusts === undefined) return
  const ignored = typeof trusted === 'number' ? '; from Fastify 5.12.1 on a number is ignored' : ''
  app.log.warn(`Rate limits count an address that clients may choose: ${trusts}, from every peer. ${remedy}${ignored}`)
}

/** Returns what trusts every peer, as the beginning of a sentence; undefined where nothing does. */
function whyAllTrusted(app: FastifyInstance, trusted: unknown): string | undefined {
  if (trusted === true) return 'trustProxy is true, which believes the first address of X-Forwarded-For'
  if (typeof trusted === 'number') {
    return trusted > 0 ? `Fastify ${app.version} trusts X-Forwarded-For for ${countOf(trusted, 'hop')}` : undefined
  }
  // Of a list nothing is to be told: Fastify refuses networks of all addresses.
  return typeof trusted === 'function' && trustsStrangers(trusted)
    ? 'trustProxy is a function that trusts any address'
    : undefined
}

/** Returns whether a host's function trusts peers that cannot be proxies. One that fails trusts nothing. */
function trustsStrangers(trusted: CallableFunction): boolean {
  try {
    return STRANGERS.some((address) => Boolean(Reflect.apply(trusted, undefined, [address, 0])))
  } catch {
    return false
  }
}

function isBefore(version: string, than: readonly number[]): boolean {
  const numbers = version.split(/[.-]/).map(Number)
  const differing = than.findIndex((number, place) => number !== numbers[place])
  return differing !== -1 && Number(numbers[differing]) < Number(than[differing])
}

/** The most proxies that the line at start names. */
const SHOWN_PROXIES = 5

/** Returns whose forwarding headers the app believes, in words: `none`, `all`, addresses, or `by a function`. */
export function trustedProxies(app: FastifyInstance): string {
  const options = optionsFor(app)
  if (options === undefined) return 'unknown'
  const { trustProxy: trusted } = options
  if (!trusted) return 'none'
  if (trusted === true) return 'all'
  if (typeof trusted === 'function') return 'by a function'
  if (typeof trusted === 'number') return trustsHops(app) ? `${countOf(trusted, 'hop')}, from every peer` : 'none'
  const proxies = [trusted].flat().map(String)
  const others = proxies.length - SHOWN_PROXIES
  return `${proxies.slice(0, SHOWN_PROXIES).join(', ')}${others > 0 ? ` and ${others} more` : ''}`
}

/** Returns whether Fastify takes a number as so many hops to trust; later releases trust none then. */
function trustsHops({ version }: FastifyInstance): boolean {
  return isBefore(version, IGNORES_A_NUMBER)
}

/** Returns the options of the app, under a symbol of Fastify: `initialConfig` lacks `trustProxy`. */
function optionsFor(app: FastifyInstance): { readonly trustProxy?: unknown } | undefined {
  for (let instance: object = app; instance !== Object.prototype; instance = Object.getPrototypeOf(instance)) {
    const key = Object.getOwnPropertySymbols(instance).find(({ description }) => description === 'fastify.options')
    if (key !== undefined) return Object(Reflect.get(instance, key))
  }
  return undefined
}

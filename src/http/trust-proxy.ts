import type { FastifyInstance } from 'fastify'

/** The first release that ignores a number as `trustProxy`. */
const IGNORES_A_NUMBER = [5, 12, 1] as const

/**
 * Warns of a `trustProxy` that is a number, where Fastify still trusts that many hops: a client that reaches the
 * server directly then chooses the address by which it is counted.
 */
export function warnOfTrustedHops(app: FastifyInstance): void {
  if (!isBefore(app.version, IGNORES_A_NUMBER)) return
  const trusted = trustProxyFor(app)
  if (typeof trusted !== 'number') return
  app.log.warn(
    `Rate limits count an address that clients may choose: Fastify ${app.version} trusts X-Forwarded-For for ${trusted} hop(s), from every peer. Set trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8']; from Fastify 5.12.1 on a number is ignored`,
  )
}

function isBefore(version: string, than: readonly number[]): boolean {
  const numbers = version.split(/[.-]/).map(Number)
  const differing = than.findIndex((number, place) => number !== numbers[place])
  return differing !== -1 && Number(numbers[differing]) < Number(than[differing])
}

/** Reads the option, which `initialConfig` lacks; releases that trust a number keep all options under this symbol. */
function trustProxyFor(app: FastifyInstance): unknown {
  for (let instance: object = app; instance !== Object.prototype; instance = Object.getPrototypeOf(instance)) {
    const key = Object.getOwnPropertySymbols(instance).find(({ description }) => description === 'fastify.options')
    if (key !== undefined) return Object(Reflect.get(instance, key)).trustProxy
  }
  return undefined
}

/** The request that a proxy asks about: what it says in headers, or in the method and the path of its own request. */
import { METHODS } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { shown } from '../../ground/setting.js'
import { plainIp } from '../../http/client-address.js'
import type { ConsumeOptions } from '../../http/consume.js'
import { withoutOrigin } from '../../http/request-path.js'
import { InvalidInputError, type WrongField } from '../api/problems.js'

/** The headers of nginx's guides, and those of Traefik and Caddy. */
const METHOD = ['X-Original-Method', 'X-Forwarded-Method'] as const
const PATH = ['X-Original-URI', 'X-Forwarded-Uri'] as const
const HOST = ['X-Forwarded-Host'] as const
const ADDRESS = 'X-Forwarded-For'
/** The headers that say whose the request is, and are none of its own. */
const OF_PROXY = [...METHOD, ...PATH, ...HOST, ADDRESS].map((name) => name.toLowerCase())

interface Source {
  readonly name: string
  readonly value: string
}

/**
 * Returns the request that a proxy asks about.
 *
 * @param behind the path behind the prefix, where Envoy has it; empty without one
 * @throws InvalidInputError for what is missing, and where two sources differ
 */
export function readOriginalRequest(request: FastifyRequest, behind: string): ConsumeOptions {
  const wrong: WrongField[] = []
  const itself = (name: string, value: string) => (behind === '' || value === '' ? [] : [{ name, value }])

  function agree(headers: readonly string[], what: string, own: readonly Source[], isNeeded = true): string {
    const sources = [...headers.flatMap((name) => linesOf(request, name)), ...own]
    const [first] = sources
    const other = sources.find(({ value }) => value !== first?.value)
    if (first !== undefined && other !== undefined) {
      const said = [first, other].map(({ name, value }) => `${name} ${shown(value)}`).join(', ')
      wrong.push({ in: 'header', field: other.name, detail: `contradicts: the request has two ${what}s, ${said}` })
    }
    if (first === undefined && isNeeded) {
      const detail = `is missing: the ${what} of the request is in ${headers.join(' or ')}, or is that of a request with a path behind the prefix`
      wrong.push({ in: 'header', field: headers[0] ?? '', detail })
    }
    return first?.value ?? ''
  }

  const method = agree(METHOD, 'method', itself('the method', request.method))
  if (method !== '' && !METHODS.includes(method.toUpperCase())) {
    wrong.push({ in: 'header', field: METHOD[0], detail: `is ${shown(method)}: it is no method such as GET` })
  }
  const path = agree(PATH, 'path', itself('the path behind the prefix', behind))
  const given = agree(HOST, 'host', [], false)
  const host = given === '' && behind !== '' ? (request.headers.host ?? '') : given
  const forwarded = linesOf(request, ADDRESS).map(({ value }) => value)
  const ip = forwarded.length === 0 ? '' : clientOf(request, forwarded.join(', '))
  if (forwarded.length === 0) {
    wrong.push({ in: 'header', field: ADDRESS, detail: 'is missing: it has the address of the client' })
  } else if (plainIp(ip) === null) {
    wrong.push({
      in: 'header',
      field: ADDRESS,
      detail: `has ${shown(ip)} in the place of the client: it is no address`,
    })
  }
  if (path !== '' && !withoutOrigin(path).startsWith('/')) {
    wrong.push({ in: 'header', field: PATH[0], detail: `is ${shown(path)}: it is no path such as /login` })
  }
  if (wrong.length > 0) throw new InvalidInputError(wrong)
  return { method, path, ip, headers: headersOf(request, host) }
}

/** Returns each line of a header: Node.js joins several. An empty one says nothing. */
function linesOf({ headers, raw: { rawHeaders } }: FastifyRequest, name: string): Source[] {
  const lowered = name.toLowerCase()
  const joined = headers[lowered]
  if (joined === undefined) return []
  if (typeof joined === 'string' && !joined.includes(', ')) return joined === '' ? [] : [{ name, value: joined }]
  return rawHeaders.flatMap((value, index) => {
    return index % 2 === 1 && value !== '' && rawHeaders[index - 1]?.toLowerCase() === lowered ? [{ name, value }] : []
  })
}

/**
 * Returns the right-most address that the app's `trustProxy` does not trust: Fastify's own, for a request that the last
 * proxy of the list has sent.
 */
function clientOf(request: FastifyRequest, forwarded: string): string {
  const last = forwarded.lastIndexOf(',')
  const socket = { remoteAddress: forwarded.slice(last + 1).trim() }
  const headers = last === -1 ? {} : { 'x-forwarded-for': forwarded.slice(0, last) }
  const forwardedBy: FastifyRequest = Object.create(request, { raw: { value: { socket, headers } } })
  try {
    return forwardedBy.ip
  } catch {
    // A host's function that fails trusts nothing.
    return socket.remoteAddress
  }
}

/** Returns the headers of the request itself. */
function headersOf({ headers }: FastifyRequest, host: string): NonNullable<ConsumeOptions['headers']> {
  const own: Record<string, string | string[] | undefined> = { ...headers, host: host === '' ? undefined : host }
  for (const name of OF_PROXY) own[name] = undefined
  return own
}

/** The request that a proxy asks about: what it says in headers, or in the method and the path of its own request. */
import { METHODS } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { shown } from '../../ground/setting.js'
import { plainIp } from '../../http/client-address.js'
import type { ConsumeOptions } from '../../http/consume.js'
import { withoutOrigin } from '../../http/request-path.js'
import { InvalidInputError, type WrongField } from '../api/problems.js'

/** The header of ingress-nginx, which has a whole URL: a path and a host. */
const URL_HEADER = 'X-Original-URL'
/** The headers of nginx's guides, and those of Traefik and Caddy. */
const METHOD = ['X-Original-Method', 'X-Forwarded-Method'] as const
const PATH = ['X-Original-URI', 'X-Forwarded-Uri', URL_HEADER] as const
const HOST = ['X-Forwarded-Host'] as const
const ADDRESS = 'X-Forwarded-For'
/** The headers that say whose the request is, and are none of its own. */
const OF_PROXY = [...METHOD, ...PATH, ...HOST, ADDRESS].map((name) => name.toLowerCase())

const HOST_OF_URL = /^https?:\/\/([^/?#]*)/i
/** Node.js reads the bytes of a header as Latin-1: each of these is a byte that a URL spells as an escape. */
const RAW_BYTE = /[\x80-\xff]/g

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
  const linesOfAll = (names: readonly string[]) => names.flatMap((name) => linesOf(request, name))

  /** Returns what all sources say; undefined where there is none. */
  function agree(what: string, sources: readonly Source[], needed: readonly string[]): Source | undefined {
    const [first] = sources
    const other = sources.find(({ value }) => value !== first?.value)
    if (first !== undefined && other !== undefined) {
      const said = [first, other].map(({ name, value }) => `${name} ${shown(value)}`).join(', ')
      wrong.push({ in: 'header', field: other.name, detail: `contradicts: the request has two ${what}s, ${said}` })
    }
    if (first === undefined && needed[0] !== undefined) {
      const detail = `is missing: the ${what} of the request is in ${needed.join(' or ')}, or is that of a request with a path behind the prefix`
      wrong.push({ in: 'header', field: needed[0], detail })
    }
    return first
  }

  const method = agree('method', [...linesOfAll(METHOD), ...itself('the method', request.method)], METHOD)
  if (method !== undefined && !METHODS.includes(method.value.toUpperCase())) {
    const detail = `is ${shown(method.value)}: it is no method such as GET`
    wrong.push({ in: 'header', field: method.name, detail })
  }
  const paths = linesOfAll(PATH).map(({ name, value }) => ({ name, value: withoutOrigin(value) }))
  const path = agree('path', [...paths, ...itself('the path behind the prefix', behind)], PATH)
  const hosts = linesOf(request, URL_HEADER).flatMap(({ name, value }) => {
    const host = HOST_OF_URL.exec(value)?.[1] ?? ''
    return host === '' ? [] : [{ name, value: host }]
  })
  const named = agree('host', [...linesOfAll(HOST), ...hosts], [])?.value
  const host = named ?? (behind === '' ? undefined : request.headers.host)
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
  if (path !== undefined && !path.value.startsWith('/')) {
    wrong.push({ in: 'header', field: path.name, detail: `is ${shown(path.value)}: it is no path such as /login` })
  }
  if (wrong.length > 0 || method === undefined || path === undefined) throw new InvalidInputError(wrong)
  const headers = headersOf(request, host)
  return { method: method.value, path: path.value.replace(RAW_BYTE, escaped), ip, headers }
}

function escaped(byte: string): string {
  return `%${byte.charCodeAt(0).toString(16).toUpperCase()}`
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
function headersOf({ headers }: FastifyRequest, host: string | undefined): NonNullable<ConsumeOptions['headers']> {
  const own: Record<string, string | string[] | undefined> = { ...headers, host }
  for (const name of OF_PROXY) own[name] = undefined
  return own
}

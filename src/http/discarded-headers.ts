import type { AnyReply } from './request-reply.js'

/**
 * The fields that hooks of the host may have set for the answer that was meant: what describes its body (RFC 9110,
 * section 8 and 14; RFC 6266; RFC 9530), how long it may be stored (RFC 9111), and what makes a proxy send a file
 * instead. `Vary`, `Set-Cookie`, `Link` and the fields of CORS and of security hold for any answer.
 */
const OF_ANOTHER_ANSWER = new Set([
  'accept-ranges',
  'age',
  'content-digest',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-location',
  'content-md5',
  'content-range',
  'content-type',
  'digest',
  'edge-control',
  'etag',
  'expires',
  'last-modified',
  'repr-digest',
  'retry-after',
  'surrogate-control',
  'x-accel-expires',
  'x-accel-redirect',
  'x-lighttpd-send-file',
  'x-sendfile',
])

/** Turns a reply into one that no cache stores, and that has nothing of the answer that was meant. */
export function forbidStoring(reply: AnyReply): void {
  for (const name of Object.keys(reply.getHeaders())) {
    // RFC 9213 has a field for each kind of cache, such as CDN-Cache-Control.
    if (OF_ANOTHER_ANSWER.has(name) || name.endsWith('cache-control')) reply.removeHeader(name)
  }
  reply.header('cache-control', 'no-store')
}

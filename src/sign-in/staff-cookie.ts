import type { FastifyRequest } from 'fastify'
import { SECOND_MS } from '../time/clock.js'

// Read and written here, not by a registered @fastify/cookie: the host may have its own, with options of its own.

/** More cookies of one name than a browser has for the paths of a few mounts. Each takes a signature to check. */
const MOST_READ = 10

/**
 * A cookie of the staff pages, whose value needs no encoding.
 *
 * @param value what a value looks like
 */
export function createStaffCookie({ name, value, lifeMs }: { name: string; value: RegExp; lifeMs: number }) {
  const inHeader = new RegExp(`(?:^|;)\\s*${name}=(${value.source})(?=[;\\s]|$)`, 'g')
  return {
    /**
     * The first ten values of a request that look like one. Of cookies for several paths, such as those of the dashboard
     * and of a panel below it, a browser sends all.
     */
    read({ headers }: FastifyRequest): string[] {
      const values: string[] = []
      for (const [, found = ''] of (headers.cookie ?? '').matchAll(inHeader)) {
        values.push(found)
        if (values.length === MOST_READ) break
      }
      return values
    },

    /** The `Set-Cookie` header that hands out a value. */
    set(request: FastifyRequest, path: string, held: string): string {
      return `${name}=${held}; Max-Age=${lifeMs / SECOND_MS}; ${attributes(request, path)}`
    },

    /** The `Set-Cookie` header that takes it back. */
    end(request: FastifyRequest, path: string): string {
      return `${name}=; Max-Age=0; ${attributes(request, path)}`
    },
  }
}

function attributes(request: FastifyRequest, path: string): string {
  // In production TLS often ends at a proxy, where the request looks like http from here.
  const secure = request.protocol === 'https' || process.env.NODE_ENV === 'production'
  return `Path=${path}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

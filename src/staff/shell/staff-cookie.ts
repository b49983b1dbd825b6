import type { FastifyRequest } from 'fastify'
import { SECOND_MS } from '../../ground/time/clock.js'

// Cookies are read and written without registering @fastify/cookie, since the host may have it with other options.

/**
 * The number is more than a browser has cookies of one name for the paths of a few mounts. Each takes a check of a
 * signature.
 */
const MOST_READ = 10

/** The path of cookies for the folder of the page that sets them, as the browser sees it: a proxy may rewrite paths. */
export const OWN_FOLDER = ''

/**
 * Creates a cookie of the staff pages, whose value needs no encoding.
 *
 * @param value the pattern of a value
 */
export function createStaffCookie({ name, value, lifeMs }: { name: string; value: RegExp; lifeMs: number }) {
  const inHeader = new RegExp(`(?:^|;)\\s*${name}=(${value.source})(?=[;\\s]|$)`, 'g')
  return {
    /**
     * Returns the first ten values of a request that match the pattern. A browser sends the cookies of several paths,
     * such as those of the dashboard and of a panel below it.
     */
    read({ headers }: FastifyRequest): string[] {
      const values: string[] = []
      for (const [, found = ''] of (headers.cookie ?? '').matchAll(inHeader)) {
        values.push(found)
        if (values.length === MOST_READ) break
      }
      return values
    },

    /** Returns the `Set-Cookie` header that sets a value. */
    set(request: FastifyRequest, path: string, held: string): string {
      return `${name}=${held}; Max-Age=${lifeMs / SECOND_MS}; ${attributes(request, path)}`
    },

    /** Returns the `Set-Cookie` header that deletes it. */
    end(request: FastifyRequest, path: string): string {
      return `${name}=; Max-Age=0; ${attributes(request, path)}`
    },
  }
}

function attributes(request: FastifyRequest, path: string): string {
  // A proxy often ends TLS in production, behind which the request arrives as http.
  const secure = request.protocol === 'https' || process.env.NODE_ENV === 'production'
  return `Path=${path}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

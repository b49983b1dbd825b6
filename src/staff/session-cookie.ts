import fastifyCookie from '@fastify/cookie'
import type { FastifyRequest } from 'fastify'
import { SECOND_MS } from '../clock.js'
import { SESSION_MS } from './sessions.js'

// Read and written here, not by a registered @fastify/cookie: the host may have its own, with options of its own.
const NAME = 'ratelimit_staff'
const IN_HEADER = new RegExp(`(?:^|;)\\s*${NAME}=([^;\\s]*)`, 'g')

/**
 * What the session cookies of a request hold that were signed here. Of cookies for several paths, such as those of the
 * dashboard and of a panel below it, a browser sends all.
 */
export function readSessionCookies(request: FastifyRequest, secret: string): string[] {
  return [...(request.headers.cookie ?? '').matchAll(IN_HEADER)].flatMap(([, signed = '']) => {
    const { valid, value } = fastifyCookie.unsign(signed, secret)
    return valid ? [value] : []
  })
}

/** The `Set-Cookie` header that hands out a session. Neither what it holds nor its signature needs encoding. */
export function sessionCookie(request: FastifyRequest, path: string, held: string, secret: string): string {
  const value = fastifyCookie.sign(held, secret)
  return `${NAME}=${value}; Max-Age=${SESSION_MS / SECOND_MS}; ${attributes(request, path)}`
}

/** The `Set-Cookie` header that takes it back. */
export function endedSessionCookie(request: FastifyRequest, path: string): string {
  return `${NAME}=; Max-Age=0; ${attributes(request, path)}`
}

function attributes(request: FastifyRequest, path: string): string {
  // In production TLS often ends at a proxy, where the request looks like http from here.
  const secure = request.protocol === 'https' || process.env.NODE_ENV === 'production'
  return `Path=${path}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

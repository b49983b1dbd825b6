/** What AdminJS's page needs before it is sent: it is made for the open web, and for another policy. */
import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** A web font from another site. The system's own fonts do as well, and a closed network has no other. */
const OUTSIDE = /<link[^>]+href="https?:[^>]*>/g
/** The state of the page, as JSON in a script, which a `<` in it could end: one line, though U+2028 may be in that. */
const STATE = /(window\.(?:REDUX_STATE|THEME) = )([^\n]*)(;\n)/g

/**
 * Makes AdminJS's page fit for a closed network and a strict policy. Not in a hook: those of the host come first, and may
 * have compressed it by then.
 */
export function finishPage(reply: FastifyReply, html: string): string {
  const nonce = randomBytes(16).toString('base64')
  // The page names its charset too late, after a script.
  reply.type('text/html; charset=utf-8').header('content-security-policy', policy(nonce))
  return html
    .replace(OUTSIDE, '')
    .replace(STATE, (_whole, before: string, json: string, after: string) => {
      return before + json.replaceAll('<', '\\u003c') + after
    })
    .replaceAll('<script>', `<script nonce="${nonce}">`)
}

/** Styles are made by scripts while the page runs; scripts are those of this origin, and the two in the page. */
function policy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'self' 'nonce-${nonce}'`,
    "style-src 'self' 'unsafe-inline'",
    "font-src 'self' data:",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')
}

/** The hook that sets what every answer has. */
export async function setSecurityHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  reply.headers({
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // With `no-referrer`, browsers send the Origin of the form that signs out as `null`, and it would be refused.
    'referrer-policy': 'same-origin',
  })
}

/** Adapts AdminJS's page, which expects the open web and a weaker content security policy. */
import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { forbidStoring } from '../src/http/discarded-headers.js'

/** A web font from another site, which a closed network cannot load. The system's fonts replace it. */
const OUTSIDE = /<link[^>]+href="https?:[^>]*>/g
const ROOT = '<div id="app" />'
/** The page's state, one line of JSON in a script, which a `<` could end; it may contain U+2028. */
const STATE = /(window\.(?:REDUX_STATE|THEME) = )([^\n]*)(;\n)/g

/** Adapts AdminJS's page to a closed network and a strict policy, below the links to the dashboard's pages. */
export function finishPage(reply: FastifyReply, html: string, navigation: string): string {
  const nonce = randomBytes(16).toString('base64')
  // The page declares its charset too late, after a script.
  reply.type('text/html; charset=utf-8').header('content-security-policy', policy(nonce))
  return html
    .replace(OUTSIDE, '')
    .replace(ROOT, () => `${navigation}<main id="app"></main>`)
    .replace(STATE, (_whole, before: string, json: string, after: string) => {
      return before + json.replaceAll('<', '\\u003c') + after
    })
    .replaceAll('<script>', `<script nonce="${nonce}">`)
}

/** Returns the policy: scripts create styles at run time; scripts come from this origin, or are the two in the page. */
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

/** Sets the headers of every answer; a hook. */
export async function setSecurityHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  forbidStoring(reply)
  reply.headers({
    'x-content-type-options': 'nosniff',
    // A `no-referrer` would have browsers send `Origin: null` with the form to sign out, which would be refused.
    'referrer-policy': 'same-origin',
  })
}

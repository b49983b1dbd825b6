/** A host whose staff sign in at an identity provider: the app of the documentation, and a provider of this test's own. */
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { readSamples } from '../../../scripts/docs/samples.js'
import type { Host, Server } from '../host.js'

const ROOT = join(import.meta.dirname, '../../..')
const CLIENT_ID = 'shop'
const KEYS = generateKeyPairSync('rsa', { modulusLength: 2_048 })

export const host: Host = {
  packages: ['fastify', '@fastify/cookie', '@fastify/session', 'openid-client'],
  files: { 'staff.js': documentedApp() },
  async check({ start }) {
    const provider = await startProvider()
    try {
      const env = { ISSUER: provider.issuer, CLIENT_ID, CLIENT_SECRET: 'secret', SESSION_SECRET: 'x'.repeat(40) }
      const server = await start('node', ['staff.js'], { env: { ...env, ORIGIN: 'https://shop.example' } })
      const viewer = await signIn(server, provider, { email: 'ann@shop.example', groups: ['all', 'ratelimit-viewers'] })
      assert.deepEqual([viewer.status, viewer.tokens], [200, 403])
      const admin = await signIn(server, provider, { email: 'bob@shop.example', groups: ['ratelimit-admins'] })
      assert.deepEqual([admin.status, admin.tokens], [200, 200])
      const stranger = await signIn(server, provider, { email: 'eve@shop.example', groups: [] })
      assert.deepEqual([stranger.status, stranger.tokens], [403, 403])
      await refuseForgedState(server, provider)
    } finally {
      await provider.close()
    }
  },
}

/** The app of the guide, on a free port, and with a provider that has no TLS. */
function documentedApp(): string {
  const samples = readSamples(ROOT, join('docs', 'guides', 'identity-provider.md'))
  const sample = samples.find(({ flags }) => flags.includes('file=staff.js'))
  assert.ok(sample !== undefined)
  const changes: [string, string][] = [
    ['{ port: 3000 }', "{ port: 0, host: '127.0.0.1' }"],
    ['CLIENT_ID, CLIENT_SECRET)', 'CLIENT_ID, CLIENT_SECRET, undefined, { execute: [oidc.allowInsecureRequests] })'],
  ]
  return changes.reduce((code, [from, to]) => {
    assert.ok(code.includes(from), `The sample has no ${from}`)
    return code.replace(from, to)
  }, sample.code)
}

interface Person {
  readonly email: string
  readonly groups: readonly string[]
}

interface Provider {
  readonly issuer: string
  /** Who signs in next. */
  person: Person
  close(): Promise<void>
}

/** Starts a provider of OpenID Connect: discovery, codes with PKCE, and signed ID tokens. */
async function startProvider(): Promise<Provider> {
  const codes = new Map<string, { readonly challenge: string | null; readonly person: Person }>()
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', provider.issuer)
    const answer = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration') {
      return answer({
        issuer: provider.issuer,
        authorization_endpoint: `${provider.issuer}/authorize`,
        token_endpoint: `${provider.issuer}/token`,
        jwks_uri: `${provider.issuer}/keys`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
      })
    }
    if (url.pathname === '/keys') return answer({ keys: [KEYS.publicKey.export({ format: 'jwk' })] })
    if (url.pathname === '/authorize') {
      const code = randomUUID()
      codes.set(code, { challenge: url.searchParams.get('code_challenge'), person: provider.person })
      const back = new URL(url.searchParams.get('redirect_uri') ?? '')
      back.search = new URLSearchParams({ code, state: url.searchParams.get('state') ?? '' }).toString()
      return response.writeHead(302, { location: back.href }).end()
    }
    let form = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      form += text
    })
    request.on('end', () => {
      const fields = new URLSearchParams(form)
      const granted = codes.get(fields.get('code') ?? '')
      codes.delete(fields.get('code') ?? '')
      const verified = createHash('sha256')
        .update(fields.get('code_verifier') ?? '')
        .digest('base64url')
      if (granted?.challenge !== verified) return response.writeHead(400).end('{"error":"invalid_grant"}')
      answer({ access_token: randomUUID(), token_type: 'bearer', id_token: idToken(provider.issuer, granted.person) })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  const provider: Provider = {
    issuer: `http://127.0.0.1:${address.port}`,
    person: { email: '', groups: [] },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return provider
}

function idToken(issuer: string, person: Person): string {
  const iat = Math.floor(Date.now() / 1_000)
  const claims = { iss: issuer, sub: person.email, aud: CLIENT_ID, iat, exp: iat + 300, ...person }
  const signed = [{ alg: 'RS256' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return [...signed, sign('sha256', Buffer.from(signed.join('.')), KEYS.privateKey).toString('base64url')].join('.')
}

/** Signs in as a browser does, and returns the status of the dashboard and of a page for admins. */
async function signIn(server: Server, provider: Provider, person: Person) {
  provider.person = person
  const { callback, cookie } = await beginSignIn(server)
  const signedIn = await server.request(callback, { headers: { cookie } })
  assert.equal(signedIn.headers.get('location'), '/ratelimit/dashboard/', await signedIn.text())
  const headers = { cookie: cookieOf(signedIn) }
  assert.notEqual(headers.cookie, cookie)
  const status = async (path: string) => (await server.request(path, { headers })).status
  return { status: await status('/ratelimit/dashboard/'), tokens: await status('/ratelimit/dashboard/tokens.html') }
}

/** Goes from the dashboard to the provider, and returns where that leads back to. */
async function beginSignIn(server: Server) {
  const stranger = await server.request('/ratelimit/dashboard/')
  assert.deepEqual([stranger.status, stranger.headers.get('location')], [302, '/staff/sign-in'])
  const begun = await server.request('/staff/sign-in')
  const granted = await fetch(begun.headers.get('location') ?? '', { redirect: 'manual' })
  const { pathname, search } = new URL(granted.headers.get('location') ?? '')
  return { callback: `${pathname}${search}`, cookie: cookieOf(begun) }
}

async function refuseForgedState(server: Server, provider: Provider): Promise<void> {
  provider.person = { email: 'bob@shop.example', groups: ['ratelimit-admins'] }
  const { callback, cookie } = await beginSignIn(server)
  const forged = await server.request(callback.replace(/state=[^&]+/, 'state=forged'), { headers: { cookie } })
  assert.equal(forged.status, 400)
  const dashboard = await server.request('/ratelimit/dashboard/', { headers: { cookie } })
  assert.equal(dashboard.status, 302)
}

function cookieOf(response: Response): string {
  return response.headers.getSetCookie()[0]?.split(';')[0] ?? ''
}

/** A server behind the real nginx and the real Caddy, which ask whether a request goes on, as the guide sets them up. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { atEnd } from '../support/at-end.js'
import { startWithChecks } from '../support/check-app.js'
import { createHttpClient, type RequestOptions, rawHeader, sendRaw } from '../support/http-client.js'
import { programMissing, startProxy } from '../support/proxy.js'

const GUIDE = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'checks-of-proxies.md'), 'utf8')

/** What ingress-nginx 1.x sets in the location that asks, without an `auth-method`. */
const INGRESS_HEADERS = `proxy_set_header X-Forwarded-Proto "";
    proxy_set_header Host checks.internal;
    proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Sent-From "nginx-ingress-controller";
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Auth-Request-Redirect $request_uri;`

/** Returns the configuration of the guide in a language, with the ports of a test. */
function configuration(language: string, replaced: Readonly<Record<string, string>>): string {
  const [, block = ''] = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(GUIDE) ?? []
  assert.notEqual(block, '')
  return Object.entries(replaced).reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `the guide says ${from}`)
    return text.replaceAll(from, to)
  }, block)
}

/** A server that tells what it got, and in a header what it got of a limit. */
async function startUpstream(t: TestContext): Promise<number> {
  const server = createServer((request, response) => {
    response.setHeader('x-got', limitHeaders(request.headers).join())
    request.resume().on('end', () => response.end(`${request.method} ${request.url}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, async () => void server.close().closeAllConnections())
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

function limitHeaders(headers: IncomingHttpHeaders): string[] {
  return Object.keys(headers).filter((name) => name.startsWith('x-ratelimit'))
}

/** A way to a check server that can be shut, and opened again on its port. */
function createForwarder(t: TestContext, port: number) {
  const server = createTcpServer((socket) => {
    const onward = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      from.pipe(to)
      from.on('error', () => to.destroy())
    }
    atEnd(t, async () => void socket.destroy())
  })
  async function close() {
    server.close()
    await once(server, 'close')
  }
  atEnd(t, async () => void server.close())
  return {
    async listen(own = 0): Promise<number> {
      server.listen(own, '127.0.0.1')
      await once(server, 'listening')
      const address = server.address()
      return typeof address === 'object' && address !== null ? address.port : 0
    },
    close,
  }
}

async function startBehind(t: TestContext, proxy: 'nginx' | 'caddy') {
  const checks = await startWithChecks(t, 'sqlite', {
    plugin: { middleware: { defaultRate: '100/m', skipPaths: ['/free'] } },
  })
  await checks.app.smartRateLimit.rules.import({
    version: 1,
    rules: [
      { name: 'login', pathPattern: '^/login$', method: 'POST', rate: '1/m' },
      { name: 'cafe', pathPattern: '^/café$', rate: '3/m' },
    ],
  })
  const upstream = await startUpstream(t)
  const token = checks.tokens.get('checker') ?? ''
  const common = {
    'fsr_…': token,
    '127.0.0.1:3000': `127.0.0.1:${checks.port}`,
    '127.0.0.1:8000': `127.0.0.1:${upstream}`,
  }
  const http = createHttpClient()
  atEnd(t, async () => http.close())

  /** Starts the proxy with the configuration of the guide, which `edit` changes, and returns its port. */
  function portBehind(edit: (text: string) => string = (text) => text) {
    return proxy === 'nginx'
      ? startProxy(
          t,
          (own, folder) => {
            const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
              (name) => `${name}_temp_path ${folder}/${name};`,
            )
            const server = edit(configuration('nginx', { ...common, 'listen 80;': `listen 127.0.0.1:${own};` }))
            return `daemon off; user root; pid ${folder}/pid; error_log stderr; events {} http { access_log off; ${temporary.join(' ')} ${server} }`
          },
          (file, folder) => ['nginx', '-c', file, '-p', folder],
        )
      : startProxy(
          t,
          (own) =>
            `{\n admin off\n auto_https off\n}\n${edit(configuration('txt', { ...common, 'shop.example {': `http://:${own} {` }))}`,
          (file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
        )
  }

  async function behind(edit?: (text: string) => string) {
    const port = await portBehind(edit)
    return (path: string, options: RequestOptions = {}) => http.request(port, path, options)
  }

  async function logged(): Promise<string[]> {
    await checks.app.smartRateLimit.events.flush()
    const events = await checks.database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    return events.map(({ method, path, client }) => `${method} ${path} ${client}`)
  }
  const port = await portBehind()
  const request = (path: string, options: RequestOptions = {}) => http.request(port, path, options)
  return { ...checks, behind, proxyPort: port, request, logged }
}

for (const [proxy, version, whenAway] of [
  ['nginx', '-v', 500],
  ['caddy', 'version', 502],
] as const) {
  test(`behind ${proxy}: who is within the limit gets through with its headers, others get 429 and Retry-After, each counted once by its own address`, {
    skip: programMissing(proxy, version),
  }, async (t) => {
    const { request, logged } = await startBehind(t, proxy)
    const post = { method: 'POST', body: 'x'.repeat(100_000), headers: { 'content-type': 'text/plain' } }
    const first = await request('/login?next=%2Fa', post)
    assert.deepEqual([first.status, first.text], [200, 'POST /login?next=%2Fa'])
    const second = await request('/log%69n', post)
    assert.equal(second.status, 429)
    assert.ok(Number(second.headers['retry-after']) > 0)
    assert.equal(second.headers['x-ratelimit-limit'], '1')
    const other = await request('/a%20b//c?x=1', { headers: { authorization: 'Bearer of-the-client' } })
    assert.deepEqual([other.status, other.text, other.headers['x-ratelimit-limit']], [200, 'GET /a%20b//c?x=1', '100'])
    assert.equal((await request('/page', { method: 'HEAD' })).status, 200)
    assert.equal((await request('/page', { method: 'OPTIONS' })).status, 200)
    // What a client says about itself is not believed.
    const spoofed = {
      'x-forwarded-for': '198.51.100.1',
      'x-original-uri': '/open',
      'x-forwarded-uri': '/open',
      'x-original-method': 'GET',
      'x-forwarded-method': 'GET',
    }
    assert.equal((await request('/login', { ...post, headers: spoofed })).status, 429)
    assert.deepEqual(await logged(), [
      'POST /login ip:127.0.0.1',
      'POST /log%69n ip:127.0.0.1',
      'GET /a%20b//c ip:127.0.0.1',
      'HEAD /page ip:127.0.0.1',
      'OPTIONS /page ip:127.0.0.1',
      'POST /login ip:127.0.0.1',
    ])
  })

  test(`behind ${proxy}: a request that no limit covers gets no header of a limit, nor does the server, whatever the client sends`, {
    skip: programMissing(proxy, version),
  }, async (t) => {
    const { request } = await startBehind(t, proxy)
    const madeUp = { headers: { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '77', 'x-ratelimit-reset': 'x' } }
    const plain = await request('/free')
    assert.deepEqual([plain.status, limitHeaders(plain.headers), plain.headers['x-got']], [200, [], ''])
    const spoofed = await request('/free', madeUp)
    assert.deepEqual([spoofed.status, limitHeaders(spoofed.headers)], [200, []])
    const { headers } = await request('/page', madeUp)
    assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['100', '99'])
  })

  test(`behind ${proxy}: a path of raw bytes is the path of their escapes`, {
    skip: programMissing(proxy, version),
  }, async (t) => {
    const { proxyPort } = await startBehind(t, proxy)
    for (const [path, limit] of [
      ['/caf%C3%A9', '3'],
      [Buffer.from('/café').toString('latin1'), '3'],
    ] as const) {
      const answer = await sendRaw(proxyPort, `GET ${path} HTTP/1.1\r\nHost: shop.example`)
      assert.equal(rawHeader(answer, 'x-ratelimit-limit'), limit, path)
    }
  })

  test(`behind ${proxy}: without a check server, and with a token that opens nothing, nobody gets through`, {
    skip: programMissing(proxy, version),
  }, async (t) => {
    const { request, app, database, clock, behind } = await startBehind(t, proxy)
    const openly = await behind((text) => {
      if (proxy === 'caddy') return text.replace(/(reverse_proxy .*)\n {2}\}\n/, '$1\n }\n handle_errors {\n $1\n }\n')
      const [passed = ''] = /proxy_pass http:\/\/127[^;]*;/.exec(text) ?? []
      const [, , failsOpen = ''] = GUIDE.split('```nginx\n')
      const [inLocation = '', unchecked = ''] = failsOpen.split('```', 1).join().split('\n\n')
      assert.match(unchecked, /location @unchecked/)
      return text
        .replace('error_page 403', `${inLocation} error_page 403`)
        .replace('location @refused', `${unchecked.replace(/proxy_pass .*;/, passed)} location @refused`)
    })
    const tooLarge = Object.fromEntries(['a', 'b', 'c'].map((name) => [`x-${name}`, name.repeat(7_000)]))
    assert.equal((await openly('/page')).status, 200)
    const refused = proxy === 'nginx' ? 400 : 431
    assert.equal((await openly('/page', { headers: tooLarge })).status, refused, 'nothing is away')
    await database.client.$executeRawUnsafe('DELETE FROM rate_limit_token')
    clock.advance(1_000)
    assert.equal((await request('/page')).status, 401)
    await app.close()
    assert.equal((await request('/page')).status, whenAway)
    assert.deepEqual(
      [(await openly('/page')).status, (await openly('/page')).text],
      [200, 'GET /page'],
      'as the guide sets it up',
    )
  })
}

test('behind nginx: several check servers that were away are asked at once, as the guide sets them up', {
  skip: programMissing('nginx', '-v'),
}, async (t) => {
  const { behind, port } = await startBehind(t, 'nginx')
  const [, , , several = ''] = GUIDE.split('```nginx\n')
  const [upstream = ''] = several.split('```', 1)
  assert.match(upstream, /upstream checks/)
  const servers = [createForwarder(t, port), createForwarder(t, port)]
  const ports = await Promise.all(servers.map(({ listen }) => listen()))
  await Promise.all(servers.map(({ close }) => close()))
  const request = await behind((text) =>
    text.replace(
      /upstream checks \{.*?\n\}/s,
      upstream.replace('10.0.3.1:3000', `127.0.0.1:${ports[0]}`).replace('10.0.3.2:3000', `127.0.0.1:${ports[1]}`),
    ),
  )
  assert.equal((await request('/page')).status, 500)
  await Promise.all(servers.map(({ listen }, index) => listen(ports[index])))
  assert.equal((await request('/page')).status, 200)
})

test('behind nginx as ingress-nginx sets it up: the whole URL is read', {
  skip: programMissing('nginx', '-v'),
}, async (t) => {
  const { behind } = await startBehind(t, 'nginx')
  const request = await behind((text) =>
    text.replace(/proxy_set_header X-Original-Method.*(?=\n {2}\}\n)/s, INGRESS_HEADERS),
  )
  assert.equal((await request('/login', { method: 'POST' })).status, 200)
  assert.equal((await request('/log%69n?next=%2F', { method: 'POST' })).status, 429)
  const spoofed = { 'x-forwarded-for': '198.51.100.1', 'x-original-url': 'http://a/free', 'x-original-method': 'GET' }
  assert.equal((await request('/login', { method: 'POST', headers: spoofed })).status, 429)
  assert.equal((await request('/login', { method: 'POST', headers: { 'x-forwarded-uri': '/free' } })).status, 500)
  assert.equal((await request('/page')).headers['x-ratelimit-limit'], '100')
})

test('a server in Python asks as the guide shows it', { skip: programMissing('python3', '--version') }, async (t) => {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'several-languages.md'), 'utf8')
  const [, program = ''] = /```python\n(.*?)```/s.exec(page) ?? []
  const { origin, tokens, app } = await startWithChecks(t, 'sqlite', { plugin: { middleware: { defaultRate: '1/m' } } })
  await app.smartRateLimit.rules.import({
    version: 1,
    rules: [{ name: 'cafe', pathPattern: '^/café$', rate: '3/m' }],
  })
  const port = await startProxy(
    t,
    (own) => program.replace('"8000"', `"${own}"`),
    (file) => ['python3', file],
    { CHECK_URL: `${origin}/check`, CHECK_TOKEN: tokens.get('checker') ?? '' },
  )
  const http = createHttpClient()
  atEnd(t, async () => http.close())
  const first = await http.request(port, '/a?b=1', {})
  assert.deepEqual([first.status, first.text, first.headers['x-ratelimit-remaining']], [200, 'hello', '0'])
  const raw = Buffer.from('/café').toString('latin1')
  assert.match(await sendRaw(port, `GET ${raw} HTTP/1.1\r\nHost: a`), /X-RateLimit-Limit: 3\r\n/i, 'bytes are escapes')
  const second = await http.request(port, '/a', {})
  assert.deepEqual([second.status, JSON.parse(second.text).code], [429, 'FST_RATE_LIMIT_EXCEEDED'])
  assert.ok(Number(second.headers['retry-after']) > 0)
  assert.equal((await http.request(port, 'a', {})).status, 400, 'no request')
  await app.close()
  assert.equal((await http.request(port, '/a', {})).status, 200, 'it fails open')
})

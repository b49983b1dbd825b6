/** What proxies ask: 204 or the refusal, about the request that they name in headers, or in their own request. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { CHECK, startWithChecks } from '../support/check-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { rawHeader, sendRaw } from '../support/http-client.js'

const IP = '203.0.113.7'
const NGINX = { 'x-original-method': 'GET', 'x-original-uri': '/search?q=1', 'x-forwarded-for': IP }
const TRAEFIK = {
  'x-forwarded-method': 'GET',
  'x-forwarded-uri': '/search?q=1',
  'x-forwarded-host': 'shop.example:8443',
  'x-forwarded-proto': 'https',
  'x-forwarded-for': IP,
}

function start(t: TestContext, options: Parameters<typeof startWithChecks>[2] = {}) {
  return startWithChecks(t, 'sqlite', options)
}

/** Returns the requests that were checked, as the log has them. */
async function logged({ app, database }: Awaited<ReturnType<typeof start>>) {
  await app.smartRateLimit.events.flush()
  const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  return events.map(({ method, path, client }) => `${method} ${path} ${client}`)
}

forAnyDatabase((provider) => {
  test('an allowed request is 204 with the headers, a refused one has status, headers and body of the hook', async (t) => {
    const { app, forward, clock } = await startWithChecks(t, provider)
    const { client, rules } = app.smartRateLimit
    const refusal = { refusalStatus: 503, refusalMessage: 'Busy for {seconds} s' }
    await client.rateLimitRule.create({
      data: {
        name: 'shop',
        pathPattern: '^/search$',
        rate: '1/m',
        condition: "request.host == 'shop.example'",
        ...refusal,
      },
    })
    await rules.reload()
    const first = await forward(TRAEFIK)
    assert.deepEqual(
      [first.status, first.text, first.headers['x-ratelimit-limit'], first.headers['x-ratelimit-remaining']],
      [204, '', '1', '0'],
    )
    const { status, text, headers } = await forward(TRAEFIK)
    assert.equal(status, 503)
    const seconds = 60 - (Math.floor(clock.now() / 1000) % 60)
    assert.deepEqual(JSON.parse(text), {
      statusCode: 503,
      code: 'FST_RATE_LIMIT_EXCEEDED',
      error: 'Service Unavailable',
      message: `Busy for ${seconds} s`,
    })
    assert.deepEqual(
      [headers['retry-after'], headers['content-type'], headers['cache-control']],
      [String(seconds), 'application/json; charset=utf-8', 'no-store'],
    )
    const head = await forward({ 'x-forwarded-for': IP, host: 'shop.example' }, '/search', 'HEAD')
    assert.deepEqual([head.status, head.text], [503, ''])
  })
})

test('the request is read from the headers of nginx, from those of Traefik and Caddy, or as Envoy sends it', async (t) => {
  const started = await start(t)
  const { forward } = started
  assert.equal((await forward({ ...NGINX, 'x-original-method': 'POST' })).status, 204)
  assert.equal((await forward({ ...TRAEFIK, 'x-forwarded-method': 'PUT', 'x-forwarded-uri': '/a%2Fb//c' })).status, 204)
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PROPFIND', 'PURGE']) {
    assert.equal(
      (await forward({ 'x-forwarded-for': IP }, `/p%20q/${'x'.repeat(400)}?refused=1&a=%zz`, method)).status,
      204,
      method,
    )
  }
  assert.equal((await forward({ 'x-forwarded-for': IP }, '/')).status, 204)
  assert.equal(
    (await forward({ ...NGINX, 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/search?q=1' })).status,
    204,
    'they agree',
  )
  const paths = await logged(started)
  assert.deepEqual(paths.slice(0, 2), [`POST /search ip:${IP}`, `PUT /a%2Fb//c ip:${IP}`])
  assert.deepEqual(new Set(paths.slice(2, 11).map((path) => path.split(' ')[0])).size, 9)
  assert.ok(paths[2]?.startsWith('GET /p%20q/xxx'))
  assert.deepEqual(paths.slice(11), [`GET / ip:${IP}`, `GET /search ip:${IP}`])
})

test('a path is the same one however its bytes are sent: raw, escaped, or beside bytes that are no UTF-8', async (t) => {
  const { app, forward, port, bearer } = await start(t)
  await app.smartRateLimit.rules.import({
    version: 1,
    rules: [
      { name: 'cafe', pathPattern: '^/café(/|$)', rate: '3/d' },
      { name: 'login', pathPattern: '^/login', rate: '5/d' },
    ],
  })
  const raw = Buffer.from('/café').toString('latin1')
  const url = (path: string) => `https://shop.example${path}`
  for (const [method, path, spell] of [
    ['X-Original-Method', 'X-Original-URI', String],
    ['X-Forwarded-Method', 'X-Forwarded-Uri', String],
    ['X-Original-Method', 'X-Original-URL', url],
  ] as const) {
    for (const [spelled, limit] of [
      ['/caf%C3%A9', '3'],
      [raw, '3'],
      [`${raw}/\xff`, '3'],
      ['/%6cogin/%FF', '5'],
      ['/%6cogin/\xff', '5'],
      ['/caf\xe9', '100'],
    ] as const) {
      const answer = await sendRaw(
        port,
        `GET ${CHECK}/forward HTTP/1.1\r\nHost: a\r\nAuthorization: ${bearer().authorization}\r\n${method}: GET\r\n` +
          `${path}: ${spell(spelled)}\r\nX-Forwarded-For: ${IP}`,
      )
      assert.equal(rawHeader(answer, 'x-ratelimit-limit'), limit, `${path} ${spelled}`)
    }
  }
  assert.equal((await forward({ 'x-forwarded-for': IP }, '/%6cogin/%FF')).status, 400, 'in the path of its own request')
})

test('ingress-nginx sends a whole URL: its path and its host count', async (t) => {
  const started = await start(t)
  const { app, forward } = started
  await app.smartRateLimit.rules.import({
    version: 1,
    rules: [{ name: 'shop', pathPattern: '.', rate: '7/d', condition: "request.host == 'shop.example'" }],
  })
  const asks = (url: string, more = {}) =>
    forward({ 'x-original-url': url, 'x-original-method': 'GET', 'x-forwarded-for': IP, host: 'checks', ...more })
  assert.equal((await asks('https://shop.example:8443/a%2Fb?c=d#e')).headers['x-ratelimit-limit'], '7')
  assert.equal((await asks('http://other.example')).headers['x-ratelimit-limit'], '100')
  // A client of HTTP/1.0 names no host.
  assert.equal((await asks('http:///page')).status, 204)
  const agreeing = { 'x-original-uri': '/page', 'x-forwarded-host': 'shop.example:8443' }
  assert.equal((await asks('https://shop.example:8443/page', agreeing)).status, 204)
  for (const [url, more, detail] of [
    ['https://shop.example/page', { 'x-forwarded-uri': '/open' }, /^X-Original-URL contradicts: .*two paths/],
    ['https://shop.example/page', { 'x-forwarded-host': 'a.example' }, /^X-Original-URL contradicts: .*two hosts/],
    ['page', {}, /^X-Original-URL is "page": it is no path/],
    [
      '',
      {},
      /^X-Original-URI is missing: the path of the request is in X-Original-URI or X-Forwarded-Uri or X-Original-URL/,
    ],
  ] as const) {
    const { status, text } = await asks(url, more)
    assert.equal(status, 400)
    assert.match(JSON.parse(text).detail, detail)
  }
  assert.deepEqual(await logged(started), [
    `GET /a%2Fb ip:${IP}`,
    ...['/', '/page', '/page'].map((path) => `GET ${path} ip:${IP}`),
  ])
})

test('what is missing or contradictory is a 400 that names it, never a 2xx, and counts nothing', async (t) => {
  const started = await start(t)
  const without = (name: keyof typeof NGINX) =>
    Object.fromEntries(Object.entries(NGINX).filter(([each]) => each !== name))
  const wrong: [Parameters<typeof started.forward>, RegExp][] = [
    [[{}], /^X-Original-Method is missing.*; X-Original-URI is missing.*; X-Forwarded-For is missing/],
    [
      [without('x-original-method')],
      /^X-Original-Method is missing: the method of the request is in X-Original-Method or X-Forwarded-Method/,
    ],
    [[without('x-original-uri')], /^X-Original-URI is missing/],
    [[without('x-forwarded-for')], /^X-Forwarded-For is missing: it has the address of the client/],
    [[{ ...NGINX, 'x-original-uri': '' }], /^X-Original-URI is missing/],
    [[{ ...NGINX, 'x-forwarded-for': '' }], /^X-Forwarded-For is missing/],
    [[{ ...NGINX, 'x-forwarded-for': 'unknown' }], /^X-Forwarded-For has "unknown" in the place of the client/],
    [[{ ...NGINX, 'x-forwarded-for': `${IP}, ` }], /^X-Forwarded-For has "" in the place of the client/],
    [[{ ...NGINX, 'x-original-uri': 'search' }], /^X-Original-URI is "search"/],
    [[{ ...NGINX, 'x-original-method': 'BREW' }], /^X-Original-Method is "BREW": it is no method such as GET/],
    [[{ ...TRAEFIK, 'x-forwarded-method': 'BREW' }], /^X-Forwarded-Method is "BREW": it is no method such as GET/],
    [[{ ...TRAEFIK, 'x-forwarded-uri': 'search' }], /^X-Forwarded-Uri is "search": it is no path/],
    [
      [{ ...NGINX, 'x-forwarded-uri': '/other' }],
      /^X-Forwarded-Uri contradicts: the request has two paths, X-Original-URI "\/search\?q=1", X-Forwarded-Uri "\/other"/,
    ],
    [[{ ...NGINX, 'x-forwarded-method': 'POST' }], /^X-Forwarded-Method contradicts/],
    [[{ ...NGINX, 'x-original-uri': ['/search', '/open'] }], /^X-Original-URI contradicts/],
    [[{ ...TRAEFIK, 'x-forwarded-host': ['a.example', 'b.example'] }], /^X-Forwarded-Host contradicts/],
    [[NGINX, '/elsewhere'], /^the path behind the prefix contradicts/],
    [[NGINX, '/'], /^the path behind the prefix contradicts/],
    [[{ 'x-forwarded-for': IP, 'x-original-method': 'GET' }, '/p', 'POST'], /^the method contradicts/],
    [[NGINX, 'x'], /^There is no such address/],
    [[NGINX, '%2Fp'], /^There is no such address/],
  ]
  for (const [asked, detail] of wrong) {
    const { status, text } = await started.forward(...asked)
    assert.ok(status === 400 || status === 404, `${JSON.stringify(asked)} ${status}`)
    assert.match(JSON.parse(text).detail, detail, JSON.stringify(asked))
  }
  const otherwise = { headers: { ...NGINX, ...started.bearer() } }
  assert.equal((await started.request(`${CHECK}/forw%61rd/elsewhere`, otherwise)).status, 404, 'a path that hides')
  assert.equal((await started.request(`${CHECK}/forward`, { headers: NGINX })).status, 401)
  assert.deepEqual(await logged(started), [])
})

test('with refused=403 every refusal is a 403, for nginx; its headers stay', async (t) => {
  const { forward } = await start(t, { plugin: { middleware: { defaultRate: '1/m' } } })
  assert.equal((await forward(NGINX, '?refused=403')).status, 204)
  const { status, headers, text } = await forward(NGINX, '?refused=403')
  assert.deepEqual([status, JSON.parse(text).statusCode], [403, 429])
  assert.ok(Number(headers['retry-after']) > 0)
  for (const query of ['?q=1', '?refused=429', '']) assert.equal((await forward(NGINX, query)).status, 429)
})

test('the client is the right-most address of X-Forwarded-For that trustProxy does not trust', async (t) => {
  for (const [trustProxy, forwarded, client] of [
    [false, `198.51.100.1, ${IP}`, IP],
    [false, `${IP}, 10.0.0.1`, '10.0.0.1'],
    [['10.0.0.0/8'], `198.51.100.1, ${IP}, 10.0.0.1`, IP],
    [['10.0.0.0/8'], `${IP}:51234,10.0.0.1,  10.0.0.2`, IP],
    [['10.0.0.0/8'], '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['10.0.0.0/8', '[2001:db8::1]:443, 10.0.0.2', '2001:db8::/64'],
    [true, `198.51.100.1, ${IP}`, '198.51.100.1'],
    [(address: string) => address === IP, `198.51.100.1, ${IP}`, '198.51.100.1'],
    [() => assert.fail('the host fails'), `198.51.100.1, ${IP}`, IP],
  ] as const) {
    const started = await start(t, {
      fastify: { trustProxy: typeof trustProxy === 'object' ? [...trustProxy] : trustProxy },
    })
    assert.equal((await started.forward({ ...NGINX, 'x-forwarded-for': forwarded })).status, 204)
    assert.deepEqual(await logged(started), [`GET /search ip:${client}`], `${trustProxy} ${forwarded}`)
  }
})

test('rules see the headers of the client, and neither the token nor what the proxy says', async (t) => {
  const seen: object[] = []
  const { forward } = await start(t, { plugin: { skip: (request) => seen.push(request.headers) === 0 } })
  await forward({ ...NGINX, host: 'checks.internal', 'x-tenant': 'acme', cookie: 'a=b' })
  await forward({ ...TRAEFIK, host: 'checks.internal' })
  await forward({ 'x-forwarded-for': IP, host: 'shop.example' }, '/p')
  assert.deepEqual(seen[0], { connection: 'keep-alive', 'x-tenant': 'acme', cookie: 'a=b' })
  assert.deepEqual(
    [Reflect.get(seen[1] ?? {}, 'host'), Reflect.get(seen[2] ?? {}, 'host')],
    ['shop.example:8443', 'shop.example'],
  )
  assert.ok(seen.every((headers) => !('authorization' in headers)))
})

test('with authorize the header Authorization is that of the client', async (t) => {
  const seen: unknown[] = []
  const { request } = await start(t, {
    check: { tokens: false, authorize: () => 'checker' },
    plugin: { skip: ({ headers }) => seen.push(headers.authorization) === 0 },
  })
  await request(`${CHECK}/forward`, { headers: { ...NGINX, authorization: 'Bearer of-the-client' } })
  assert.deepEqual(seen, ['Bearer of-the-client'])
})

test('a body that a proxy sends along is not read, whatever its type and length, and an upgrade is a request like others', async (t) => {
  const { request, forward, bearer, port } = await start(t)
  for (const headers of [{ 'content-type': 'text/plain' }, { 'content-type': 'application/json' }, {}]) {
    const answer = await request(`${CHECK}/forward/upload`, {
      method: 'POST',
      headers: { ...bearer(), ...headers, 'x-forwarded-for': IP },
      body: 'x'.repeat(2 ** 20),
    })
    assert.equal(answer.status, 204)
  }
  assert.equal(
    (await forward({ ...NGINX, connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-key': 'x' })).status,
    204,
  )
  // A body that never comes.
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  const { authorization } = bearer()
  socket.write(
    `POST ${CHECK}/forward/p HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\nX-Forwarded-For: ${IP}\r\nContent-Length: 9000000\r\nContent-Type: text/plain\r\n\r\nx`,
  )
  const [chunk] = await new Promise<Buffer[]>((resolve) =>
    socket.once('data', (...received: Buffer[]) => resolve(received)),
  )
  assert.match(String(chunk), /^HTTP\/1\.1 204/)
})

test('a request with the method CONNECT is answered, below the prefix and elsewhere', async (t) => {
  const started = await start(t, { plugin: { middleware: { defaultRate: '1/m' } } })
  const { port, bearer } = started
  async function ask(target: string, headers: object): Promise<string> {
    const lines = Object.entries({ host: 'a.example', ...headers }).map(([name, value]) => `${name}: ${value}`)
    const socket = connect(port, '127.0.0.1')
    socket.write([`CONNECT ${target} HTTP/1.1`, ...lines, '', ''].join('\r\n'))
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }
  const asked = { ...bearer(), 'x-forwarded-for': IP }
  assert.match(await ask(`${CHECK}/forward`, { ...asked, ...NGINX }), /^HTTP\/1\.1 204 /)
  assert.match(await ask(`${CHECK}/forward/search?q=1`, asked), /^HTTP\/1\.1 429 .*"code":"FST_RATE_LIMIT_EXCEEDED"/s)
  assert.match(await ask(`${CHECK}/forward/search`, { 'x-forwarded-for': IP }), /^HTTP\/1\.1 401 /)
  assert.match(await ask('shop.example:443', {}), /^HTTP\/1\.1 404 .*\r\nConnection: close\r\n/s)
  assert.deepEqual(await logged(started), [
    `GET /search ip:${IP}`,
    `CONNECT /search ip:${IP}`,
    'CONNECT shop.example:443 ip:127.0.0.1',
  ])
})

test('no rule, list or ceiling of the requests limits who asks', async (t) => {
  const { forward, app } = await start(t, {
    plugin: { middleware: { defaultRate: '0/m', ceiling: '1/m', denyList: ['127.0.0.0/8'] } },
  })
  await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '0/m' } })
  await app.smartRateLimit.rules.reload()
  for (const method of ['GET', 'PROPFIND']) {
    const { status, text } = await forward({ 'x-forwarded-for': IP }, '/check', method)
    assert.deepEqual([status, JSON.parse(text).code], [429, 'FST_RATE_LIMIT_EXCEEDED'])
  }
  const other = await forward({}, 'x', 'PROPFIND')
  assert.equal(other.status, 404)
})

/** A server behind the real nginx and the real Caddy, which ask whether a request goes on, as the guide sets them up. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { atEnd } from '../support/at-end.js'
import { startWithChecks } from '../support/check-app.js'
import { createHttpClient, type RequestOptions } from '../support/http-client.js'
import { programMissing, startProxy } from '../support/proxy.js'

const GUIDE = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'checks-of-proxies.md'), 'utf8')

/** Returns the configuration of the guide in a language, with the ports of a test. */
function configuration(language: string, replaced: Readonly<Record<string, string>>): string {
  const [, block = ''] = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(GUIDE) ?? []
  assert.notEqual(block, '')
  return Object.entries(replaced).reduce((text, [from, to]) => {
    assert.ok(text.includes(from), `the guide says ${from}`)
    return text.replaceAll(from, to)
  }, block)
}

/** A server that tells what it got. */
async function startUpstream(t: TestContext): Promise<number> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end(`${request.method} ${request.url}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, async () => void server.close().closeAllConnections())
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function startBehind(t: TestContext, proxy: 'nginx' | 'caddy') {
  const checks = await startWithChecks(t, 'sqlite', {
    plugin: { middleware: { defaultRate: '100/m', denyList: ['192.0.2.0/24'] } },
  })
  await checks.app.smartRateLimit.client.rateLimitRule.create({
    data: { name: 'login', pathPattern: '^/login$', method: 'POST', rate: '1/m' },
  })
  await checks.app.smartRateLimit.rules.reload()
  const upstream = await startUpstream(t)
  const token = checks.tokens.get('checker') ?? ''
  const common = {
    'fsr_…': token,
    '127.0.0.1:3000': `127.0.0.1:${checks.port}`,
    '127.0.0.1:8000': `127.0.0.1:${upstream}`,
  }
  const http = createHttpClient()
  atEnd(t, async () => http.close())

  /** Starts the proxy with the configuration of the guide, which `edit` changes, and returns what asks it. */
  async function behind(edit: (text: string) => string = (text) => text) {
    const port =
      proxy === 'nginx'
        ? await startProxy(
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
        : await startProxy(
            t,
            (own) =>
              `{\n admin off\n auto_https off\n}\n${edit(configuration('txt', { ...common, 'shop.example {': `http://:${own} {` }))}`,
            (file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
          )
    return (path: string, options: RequestOptions = {}) => http.request(port, path, options)
  }

  async function logged(): Promise<string[]> {
    await checks.app.smartRateLimit.events.flush()
    const events = await checks.database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    return events.map(({ method, path, client }) => `${method} ${path} ${client}`)
  }
  return { ...checks, behind, request: await behind(), logged }
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

test('a server in Python asks as the guide shows it', { skip: programMissing('python3', '--version') }, async (t) => {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'several-languages.md'), 'utf8')
  const [, program = ''] = /```python\n(.*?)```/s.exec(page) ?? []
  const { origin, tokens, app } = await startWithChecks(t, 'sqlite', { plugin: { middleware: { defaultRate: '1/m' } } })
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
  const second = await http.request(port, '/a', {})
  assert.deepEqual([second.status, JSON.parse(second.text).code], [429, 'FST_RATE_LIMIT_EXCEEDED'])
  assert.ok(Number(second.headers['retry-after']) > 0)
  assert.equal((await http.request(port, 'a', {})).status, 400, 'no request')
  await app.close()
  assert.equal((await http.request(port, '/a', {})).status, 200, 'it fails open')
})

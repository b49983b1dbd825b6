/** Hostile input: every answer is a defined one, and nothing that was stored is lost. */
import assert from 'node:assert/strict'
import { METHODS } from 'node:http'
import { type TestContext, test } from 'node:test'
import { MemoryStore, type RateLimitOptions } from '../../src/index.js'
import { ERROR, openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { rawHeader, rawStatus, sendRaw } from '../support/http-client.js'

const EMOJI = '\u{1f600}'
/** As the bytes of a request line or header come out of the socket. */
const bytesOf = (text: string) => Buffer.from(text, 'utf8').toString('latin1')

const WORDS = `null undefined NaN true 0 -1 [] {} __proto__ constructor toString hasOwnProperty ' " \\ \\0 \\u0000 %00 %
  : :: ; , ,,, | # ? / // .. * $1 #{7*7} {{7*7}} <script>alert(1)</script> =1+1 +1 @SUM(A1) a=b a,b A a
  user:7 ip:1.2.3.4 rule:a:b header:x key:x ip:127.0.0.1 127.0.0.1 \xe9 \xff \x80`
const BLANKS = ['a b', 'a\tb', "' OR 1=1 --", '"; DROP TABLE rate_limit_event; --', 'user: 7']
const BEYOND_ASCII = ['é', EMOJI, '\u202e', '日本語', '\ufeff', EMOJI.repeat(300)].map(bytesOf)
const LONG = ['x'.repeat(255), 'x'.repeat(256), `${'x'.repeat(256)}y`, 'x'.repeat(8_000)]
const HEADER_VALUES = [...WORDS.split(/\s+/), ...BLANKS, ...BEYOND_ASCII, ...LONG]

/** As large as a pattern may be, and of those that take longest. */
const LARGE_PATTERN = '(a|b)*a(a|b){94}$'

forEachDatabase((provider) => {
  test(`${HEADER_VALUES.length} odd values of a header key are clients of their own, all of them in the log`, async (t) => {
    const { port, app, client, eventCount } = await startLogging(t, provider, {
      middleware: { defaultRate: '1/h', key: 'header:x-api-key' },
    })
    for (const value of HEADER_VALUES) {
      const send = () => sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${value}`)
      assert.deepEqual([rawStatus(await send()), rawStatus(await send())], [200, 429], value.slice(0, 80))
    }

    await app.smartRateLimit.events.flush()
    assert.equal(await eventCount(), 2 * HEADER_VALUES.length)
    assert.equal(app.smartRateLimit.events.stats().dropped, 0)
    for (const { key } of await client.rateLimitEvent.findMany({ distinct: ['key'] })) {
      assert.ok(key.length <= 255)
      assert.notEqual((await app.smartRateLimit.analytics.getOffenderDetail({ key })).total, 0, key)
    }
  })

  test('a path of 10 kB is limited and logged, cut to 500 characters', async (t) => {
    const { request, app, client } = await startLogging(t, provider, { middleware: { defaultRate: '1/h' } })
    const path = `/${'x'.repeat(10_000)}`

    assert.equal((await request(`${path}?${'q'.repeat(1_000)}`)).headers['x-ratelimit-remaining'], '0')
    assert.equal((await request(path)).status, 429)
    await app.smartRateLimit.events.flush()
    for (const event of await client.rateLimitEvent.findMany()) assert.equal(event.path, path.slice(0, 500))
  })

  test('a path that is too long to be searched for a rule is refused with 414, and logged; shorter ones are decided', async (t) => {
    const { request, app, client } = await startLogging(t, provider, { useDynamicRules: true })
    await client.rateLimitRule.createMany({
      data: [
        { name: 'large', pathPattern: LARGE_PATTERN, rate: '7/m' },
        { name: 'files', pathPattern: '^/files/', rate: '9/m', priority: 1 },
      ],
    })
    const path = `/${'ab'.repeat(5_000)}`

    const { status, headers, text } = await request(path)
    assert.deepEqual(
      [status, JSON.parse(text)],
      [
        414,
        {
          statusCode: 414,
          code: 'FST_RATE_LIMIT_PATH_TOO_LONG',
          error: 'URI Too Long',
          message: 'The path, the query or a header is too long',
        },
      ],
    )
    assert.deepEqual([headers['x-ratelimit-limit'], headers['retry-after']], ['0', undefined])
    const problem = await request(path, { headers: { accept: 'application/problem+json' } })
    assert.deepEqual([problem.status, JSON.parse(problem.text).title], [414, 'URI Too Long'])
    const limitOf = async (asked: string) => (await request(asked)).headers['x-ratelimit-limit']
    assert.equal(await limitOf(`/${'ba'.repeat(400)}`), '7')
    assert.equal(await limitOf(`/${'ac'.repeat(400)}`), '100')
    assert.equal(await limitOf(`/files${path}`), '9')
    assert.equal(await limitOf(`/?${path}`), '100')

    await app.smartRateLimit.events.flush()
    const [event] = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      [event?.key, event?.allowed, event?.count, event?.limit, event?.path],
      ['ip:127.0.0.1', false, 1, 0, path.slice(0, 500)],
    )
  })

  test('a path that is too long to be searched for an override is refused with 414 to its client alone', async (t) => {
    const { request, client } = await startLogging(t, provider, {
      useDynamicRules: true,
      middleware: { allowList: ['203.0.113.7'] },
    })
    await client.rateLimitOverride.createMany({
      data: ['203.0.113.7', '203.0.113.8'].map((ip) => ({
        client: `ip:${ip}`,
        effect: 'deny',
        pathPattern: LARGE_PATTERN,
      })),
    })
    const statusOf = async (from: string, path: string) => (await request(path, { from })).status
    for (const from of ['203.0.113.7', '203.0.113.8']) {
      assert.equal(await statusOf(from, `/${'ab'.repeat(5_000)}`), 414)
      assert.equal(await statusOf(from, `/${'ba'.repeat(400)}`), 403)
      assert.equal(await statusOf(from, `/${'ac'.repeat(400)}`), 200)
    }
    assert.equal(await statusOf('203.0.113.9', `/${'ab'.repeat(5_000)}`), 200)
  })

  test('paths with NUL, emoji, bad escapes and control characters are logged as received and never a 500', async (t) => {
    const { port, app, client } = await startLogging(t, provider, {})
    const paths = '/%00 /a%00b /%F0%9F%98%80 /%0d%0aX-Injected:1 /a\\b // /. /%C3%A9'.split(' ')
    for (const path of paths) {
      const answer = await sendRaw(port, `GET ${path} HTTP/1.1\r\nHost: a`)
      assert.ok([200, 404].includes(rawStatus(answer)), `${path}: ${answer}`)
      assert.equal(rawHeader(answer, 'x-ratelimit-limit'), '100', path)
      assert.equal(rawHeader(answer, 'x-injected'), undefined)
    }
    for (const path of ['/%ff', '/%', '/%zz', '/%F0%9F', `/${bytesOf(EMOJI)}`, '/\xff\xfe']) {
      assert.equal(rawStatus(await sendRaw(port, `GET ${path} HTTP/1.1\r\nHost: a`)), 400, path)
    }

    await app.smartRateLimit.events.flush()
    const logged = (await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })).map(({ path }) => path)
    assert.deepEqual(logged.slice(0, paths.length), paths)
  })

  test('huge and broken X-Forwarded-For lists neither fail nor name another client than the peer or the last hop', async (t) => {
    const { port, app, client } = await startLogging(t, provider, {})
    const lists = [
      Array(1_000).fill('1.2.3.4').join(', '),
      `${'x'.repeat(12_000)}, 203.0.113.7`,
      `${','.repeat(10_000)}203.0.113.7`,
      `${Array(700).fill('127.0.0.1').join(',')}`,
      '203.0.113.7\r\nX-Forwarded-For: 203.0.113.8',
      ...'[:: ] ::ffff: 1.2.3.4:99999999 1.2.3.4.5 0x7f.1 2130706433 ::1%25lo'.split(' '),
    ]
    for (const list of lists) {
      const answer = await sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${list}`)
      assert.equal(rawStatus(answer), 200, answer)
    }

    await app.smartRateLimit.events.flush()
    const keys = (await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })).map(({ key }) => key)
    assert.equal(keys.length, lists.length)
    assert.deepEqual(keys.slice(0, 5), [
      'ip:1.2.3.4',
      'ip:203.0.113.7',
      'ip:203.0.113.7',
      'ip:127.0.0.1',
      'ip:203.0.113.8',
    ])
    const known = ['ip:127.0.0.1', 'ip:1.2.3.4', 'ip:::1']
    for (const key of keys.slice(5)) assert.ok(known.includes(key), key)
  })

  test('weird user ids are counted, cut and logged; what is no id at all is anonymous', async (t) => {
    const ids: unknown[] = [
      ...[{}, [], null, undefined, '', '   ', true, () => 7, Symbol('7'), new Date(0)],
      ...[
        'x'.repeat(300),
        `${'x'.repeat(300)}y`,
        'a\nb',
        'a\0b',
        '\ud800',
        `${'x'.repeat(254)}${EMOJI}`,
        EMOJI,
        "'; --",
      ],
      ...[2 ** 53, -1, 0, 1e21, 10n ** 30n, 7.5],
    ]
    const anonymous = 10
    let next = 0
    const { request, app, log, client } = await startLogging(t, provider, {
      // A counter that the store cannot keep would show as a 503.
      onStoreError: 'deny',
      user: () => ({ id: ids[next] }) as never,
      middleware: { defaultRate: '1000/h', key: 'user' },
    })
    for (next = 0; next < ids.length; next++) {
      const { status, headers } = await request('/')
      const remaining = next < anonymous ? 999 - next : 999
      assert.deepEqual([next, status, headers['x-ratelimit-remaining']], [next, 200, String(remaining)])
    }

    await app.smartRateLimit.events.flush()
    const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.equal(events.length, ids.length)
    for (const [place, { key }] of events.entries()) {
      if (place < anonymous) assert.equal(key, 'ip:127.0.0.1')
      else assert.ok(key.startsWith('user:') && key.length <= 255 && key.isWellFormed() && !key.includes('\0'), key)
    }
    assert.deepEqual(
      log.filter(({ level }) => level >= ERROR),
      [],
    )
  })

  test('a key function may answer anything: NUL, half a surrogate pair, 10 kB', async (t) => {
    const answers: unknown[] = ['a\0', '\udc00', `${'k'.repeat(10_000)}1`, `${'k'.repeat(10_000)}2`, 7, {}, null, ['a']]
    let next = 0
    const { statuses, log, eventCount, app } = await startLogging(t, provider, {
      onStoreError: 'deny',
      middleware: { defaultRate: '2/h', key: () => answers[next] as never },
    })
    const seen: number[][] = []
    for (next = 0; next < answers.length; next++) seen.push(await statuses(2, '/'))

    // The last three are neither texts nor numbers: they are all the one client at this address.
    const own = [200, 200]
    assert.deepEqual(seen, [own, own, own, own, own, own, [429, 429], [429, 429]])
    await app.smartRateLimit.events.flush()
    assert.equal(await eventCount(), 2 * answers.length)
    assert.deepEqual(
      log.filter(({ level }) => level >= ERROR),
      [],
    )
  })

  test('a user id with NUL does not disturb the checks of others that go to the database with it', async (t) => {
    let next = 0
    const { app, log } = await startLogging(t, provider, {
      onStoreError: 'deny',
      user: () => ({ id: next++ === 50 ? 'a\0b' : 'other' }),
      middleware: { defaultRate: '60/h', key: 'user' },
    })
    const answers = await Promise.all(Array.from({ length: 100 }, () => app.inject('/')))

    assert.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 61)
    assert.deepEqual(
      log.filter(({ level }) => level >= ERROR),
      [],
    )
  })

  test('a rule named with every sign ASCII has, and the largest rate there is, are counted and reported', async (t) => {
    const { request, app } = await startLogging(t, provider, { useDynamicRules: true })
    const { client, analytics } = app.smartRateLimit
    const name = ` !"#$%&'()*+,-./;<=>?@[\\]^_\`{|}~`
    await client.rateLimitRule.create({ data: { name, pathPattern: '^/', rate: '2147483647/366d' } })

    assert.equal((await request('/')).headers['x-ratelimit-remaining'], '2147483646')
    assert.deepEqual(await analytics.getRuleHitCounts(), [{ rule_name: name, hits: 1, blocked: 0 }])
    const key = `rule:${name}:127.0.0.1`
    const { recent_events } = await analytics.getOffenderDetail({ key })
    assert.deepEqual([recent_events[0]?.rule_name, recent_events[0]?.limit], [name, 2_147_483_647])
  })

  test('every HTTP method is answered, and logged in at most 10 characters', async (t) => {
    const { port, app, client } = await startLogging(t, provider, { useDynamicRules: true })
    await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '.', rate: '1000/m' } })
    const methods = METHODS.filter((method) => method !== 'CONNECT')
    for (const method of methods) {
      const status = rawStatus(await sendRaw(port, `${method} / HTTP/1.1\r\nHost: a`))
      assert.ok(status >= 200 && status < 500, `${method}: ${status}`)
    }

    await app.smartRateLimit.events.flush()
    const logged = new Set((await client.rateLimitEvent.findMany()).map(({ method }) => method))
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
      assert.ok(logged.has(method), method)
    for (const method of logged) assert.ok(method.length <= 10, method)
  })
})

test('made-up header values that are refused lock no newcomer out, and let no refused client in', async (t) => {
  const { request, statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: new MemoryStore({ maxKeys: 60 }), defaultRate: '1/h', key: 'header:x-api-key' } },
  })
  const asked = (value: string) => ({ headers: { 'x-api-key': value } })
  assert.deepEqual(await statuses(2, '/', asked('refused')), [200, 429])
  for (let place = 0; place < 200; place++) {
    assert.deepEqual(await statuses(2, '/', asked(`made up ${place}`)), [200, 429], `${place}`)
  }

  const newcomers = await Promise.all(Array.from({ length: 100 }, (_, place) => request('/', asked(`new ${place}`))))
  assert.deepEqual(
    newcomers.filter(({ status }) => status !== 200),
    [],
  )
  assert.deepEqual(await statuses(1, '/', { from: '203.0.113.7' }), [200])
  assert.deepEqual(await statuses(1, '/', asked('refused')), [429])
})

async function startLogging(t: TestContext, provider: Provider, plugin: RateLimitOptions) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, { database, plugin: { logEvents: true, ...plugin } })
  return { ...started, client: database.client, eventCount: () => database.client.rateLimitEvent.count() }
}

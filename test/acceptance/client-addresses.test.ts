/** Whose request is it? By address: behind proxies and without, on IPv4, IPv6 and Unix sockets. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as httpRequest } from 'node:http'
import { constants } from 'node:http2'
import type { ServerOptions } from 'node:https'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { Worker } from 'node:worker_threads'
import type { FastifyServerOptions } from 'fastify'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, portOf, startApp, TRUSTED_PROXY, WARN } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { connectHttp2, HTTP2 } from '../support/http-client.js'

forAnyDatabase((provider) => {
  test('without trustProxy a made-up X-Forwarded-For changes nothing: one peer is one client', async (t) => {
    const { keysOf } = await startLogging(t, provider, { fastify: { trustProxy: false } })

    assert.deepEqual(await keysOf(['6.6.6.6', '7.7.7.7', undefined]), ['ip:127.0.0.1', 'ip:127.0.0.1', 'ip:127.0.0.1'])
  })

  test('behind a trusted proxy the last untrusted address counts, whatever a client puts in front of it', async (t) => {
    const trustProxy = ['127.0.0.1', '10.0.0.0/8']
    const { keysOf } = await startLogging(t, provider, { fastify: { trustProxy } })

    assert.deepEqual(await keysOf(['1.2.3.4, 10.0.0.9', '6.6.6.6, 1.2.3.4, 10.0.0.9', ' 1.2.3.4 ']), [
      'ip:1.2.3.4',
      'ip:1.2.3.4',
      'ip:1.2.3.4',
    ])
  })

  test('an event has the peer as ip_address and the client as client_ip', async (t) => {
    const { keysOf, events } = await startLogging(t, provider, {})
    await keysOf(['203.0.113.7'])

    const [event] = await events()
    assert.equal(event?.ipAddress, '127.0.0.1')
    assert.equal(event?.clientIp, '203.0.113.7')
  })

  test('an IPv4-mapped IPv6 address is the IPv4 client', async (t) => {
    const { statusesFrom } = await startLogging(t, provider, { plugin: { middleware: { defaultRate: '1/h' } } })

    assert.deepEqual(await statusesFrom(['203.0.113.7', '::ffff:203.0.113.7', '::FFFF:cb00:7107']), [200, 429, 429])
  })

  test('clients of IPv4 behind a translator to IPv6 are the clients of IPv4, for lists, overrides and conditions too', async (t) => {
    const { app, keysOf, statusesFrom } = await startLogging(t, provider, {
      plugin: { useDynamicRules: true, middleware: { defaultRate: '1/h', denyList: ['192.0.2.0/24'] } },
    })
    const { rateLimitOverride, rateLimitRule } = app.smartRateLimit.client
    await rateLimitOverride.create({ data: { client: 'ip:64:ff9b::198.51.100.3', effect: 'deny' } })
    await rateLimitRule.create({
      data: { name: 'lab', pathPattern: '^/', rate: '0/h', condition: "inNetwork(client.ip, '198.51.100.8/29')" },
    })

    assert.deepEqual(await keysOf(['64:ff9b::198.51.100.1', '198.51.100.2']), ['ip:198.51.100.1', 'ip:198.51.100.2'])
    assert.deepEqual(
      await statusesFrom(['198.51.100.1', '64:ff9b::198.51.100.2', '64:ff9b::192.0.2.1', '198.51.100.3']),
      [429, 429, 403, 403],
    )
    assert.deepEqual(await statusesFrom(['64:ff9b::198.51.100.9', '64:ff9b::198.51.100.20']), [429, 200])
    const [override] = await rateLimitOverride.findMany()
    assert.equal(override?.client, 'ip:198.51.100.3')
  })

  test('IPv6 clients of one /64 network are one client; the next network is another', async (t) => {
    const { keysOf, statusesFrom } = await startLogging(t, provider, {
      plugin: { middleware: { defaultRate: '3/h' } },
    })

    assert.deepEqual(await keysOf(['2001:db8:1:2::1', '2001:DB8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:3::1']), [
      'ip:2001:db8:1:2::/64',
      'ip:2001:db8:1:2::/64',
      'ip:2001:db8:1:3::/64',
    ])
    assert.deepEqual(await statusesFrom(['2001:db8:1:2::5', '2001:db8:1:2::6', '2001:db8:1:3::6']), [200, 429, 200])
  })

  test('ipv6Subnet 128 counts every IPv6 address alone, in its short spelling; 56 groups wider', async (t) => {
    const whole = await startLogging(t, provider, { plugin: { ipv6Subnet: 128 } })
    assert.deepEqual(await whole.keysOf(['2001:db8:1:2:0:0:0:1', '2001:0DB8:1:2::1', '2001:db8:1:2::2']), [
      'ip:2001:db8:1:2::1',
      'ip:2001:db8:1:2::1',
      'ip:2001:db8:1:2::2',
    ])

    const wide = await startLogging(t, provider, { plugin: { ipv6Subnet: 56 } })
    assert.deepEqual(await wide.keysOf(['2001:db8:1:2ff::1', '2001:db8:1:201::1']), [
      'ip:2001:db8:1:200::/56',
      'ip:2001:db8:1:200::/56',
    ])
  })

  test('loopback stays as it is, in both families', async (t) => {
    const { keysOf } = await startLogging(t, provider, { fastify: { trustProxy: () => true } })

    assert.deepEqual(await keysOf(['::1', '127.0.0.1', '127.0.0.9', '::ffff:127.0.0.1']), [
      'ip:::1',
      'ip:127.0.0.1',
      'ip:127.0.0.9',
      'ip:127.0.0.1',
    ])
  })

  test('the port of a forwarded address and its zone are left out', async (t) => {
    const { keysOf } = await startLogging(t, provider, {})

    assert.deepEqual(await keysOf(['203.0.113.7:5678', '[2001:db8::1]:443', '[2001:db8::1]', 'fe80::1%eth0']), [
      'ip:203.0.113.7',
      'ip:2001:db8::/64',
      'ip:2001:db8::/64',
      'ip:fe80::1',
    ])
  })

  test('a forwarded text that is no address counts as the peer that sent it', async (t) => {
    const { keysOf } = await startLogging(t, provider, {})
    const garbage = ['garbage', '999.1.1.1', '1.2.3', "'; DROP TABLE rate_limit_event; --", 'x'.repeat(5_000), ',,,']

    assert.deepEqual(await keysOf(garbage), Array(garbage.length).fill('ip:127.0.0.1'))
  })

  test('a client that a proxy forwards in a text that is no address has no place on its allow list, nor in its overrides', async (t) => {
    const { app, keysOf, statusesFrom, log } = await startLogging(t, provider, {
      plugin: { useDynamicRules: true, middleware: { allowList: ['127.0.0.0/8'], defaultRate: '2/h' } },
    })
    const overrides = app.smartRateLimit.client.rateLimitOverride

    assert.deepEqual(await statusesFrom([undefined, undefined, undefined]), [200, 200, 200], 'the proxy itself')
    assert.deepEqual(await keysOf(['unknown', '2001:db8::1:50000']), ['ip:127.0.0.1', 'ip:127.0.0.1'])
    assert.deepEqual(await statusesFrom(['"_x"', undefined]), [429, 200])
    for (const effect of ['allow', '100/h']) {
      await overrides.create({ data: { client: 'ip:127.0.0.1', effect, pathPattern: effect === 'allow' ? '' : '^/' } })
      assert.deepEqual(await statusesFrom(['unknown', undefined, '203.0.113.7']), [429, 200, 200])
    }
    await overrides.create({ data: { client: 'ip:127.0.0.0/8', effect: 'deny' } })
    assert.deepEqual(await statusesFrom(['unknown', undefined, '203.0.113.7']), [403, 403, 429])
    assert.deepEqual(
      log.map(({ msg }) => msg),
      [
        'Rate limits cannot read the address of clients that the proxy 127.0.0.1 forwards, such as "unknown": they are counted together, as the proxy, without what exempts it. Let it forward addresses such as 203.0.113.7, [2001:db8::1]:443',
      ],
    )
  })

  test('what a denied proxy forwards is denied, also where it is no address', async (t) => {
    const { statusesFrom } = await startLogging(t, provider, { plugin: { middleware: { denyList: ['127.0.0.1'] } } })

    assert.deepEqual(await statusesFrom(['unknown', undefined, '203.0.113.7']), [403, 403, 200])
  })

  test('no proxy is banned for clients that it forwards in a text that is no address', async (t) => {
    const { app, statusesFrom } = await startLogging(t, provider, { plugin: { useDynamicRules: true } })
    const { client } = app.smartRateLimit
    await client.rateLimitRule.create({
      data: { name: 'bans', pathPattern: '^/', rate: '1/h', banAfter: 2, banFor: '1h' },
    })
    await statusesFrom(Array(5).fill('unknown'))
    await statusesFrom(Array(5).fill('203.0.113.7'))
    await eventually('a ban', async () => (await client.rateLimitOverride.count()) > 0)
    const bans = await client.rateLimitOverride.findMany()
    assert.deepEqual(
      bans.map((ban) => ban.client),
      ['ip:203.0.113.7'],
    )
  })

  test('the classic wrong trustProxy is warned about once: a forwarding header from a private peer that is not trusted', async (t) => {
    const { keysOf, log } = await startLogging(t, provider, { fastify: { trustProxy: false } })
    await keysOf([undefined, '203.0.113.7', '203.0.113.8'])

    const warnings = log.filter(({ level, msg }) => level === WARN && /trustProxy/.test(msg))
    assert.equal(warnings.length, 1)
    assert.match(warnings[0]?.msg ?? '', /127\.0\.0\.1/)
  })

  test('with the right trustProxy nothing is warned about, also where the proxy calls through itself', async (t) => {
    const { keysOf, log } = await startLogging(t, provider, {})
    await keysOf([undefined, '203.0.113.7', '203.0.113.8', '127.0.0.1'])

    assert.deepEqual(log, [])
  })

  test('requests over a Unix socket share ip:unknown, with one warning and no address in the log', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-socket-'))
    const path = join(folder, 's')
    const { app, events, log } = await startLogging(t, provider, {
      fastify: { trustProxy: false },
      plugin: { middleware: { defaultRate: '2/h' } },
    })
    app.server.close()
    await new Promise<void>((resolve) => app.server.listen(path, resolve))
    atEnd(t, () => rm(folder, { recursive: true, force: true }))

    assert.deepEqual([await statusOver(path), await statusOver(path), await statusOver(path)], [200, 200, 429])
    const logged = await events()
    assert.deepEqual(
      logged.map(({ key, ipAddress, clientIp }) => [key, ipAddress, clientIp]),
      Array(3).fill(['ip:unknown', null, null]),
    )
    assert.equal(log.filter(({ level, msg }) => level === WARN && msg.includes('ip:unknown')).length, 1)
  })

  test('behind a Unix socket networks to trust make all clients one, of which one line warns with the remedy, which works', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-socket-'))
    atEnd(t, () => rm(folder, { recursive: true, force: true }))
    const start = async (name: string, trustProxy: FastifyServerOptions['trustProxy']) => {
      const path = join(folder, name)
      const { app, events, log } = await startLogging(t, provider, { fastify: { ...(trustProxy && { trustProxy }) } })
      app.server.close()
      await new Promise<void>((resolve) => app.server.listen(path, resolve))
      await statusOver(path)
      for (const client of ['198.51.100.1', '198.51.100.2']) await statusOver(path, `6.6.6.6, ${client}`)
      const keys = (await events()).map(({ key }) => key)
      return { keys, warnings: log.filter(({ level }) => level === WARN).map(({ msg }) => msg) }
    }

    const networks = await start('networks', ['127.0.0.1', '10.0.0.0/8'])
    assert.deepEqual(networks.keys, Array(3).fill('ip:unknown'))
    assert.equal(networks.warnings.filter((line) => line.includes('(address) => address === undefined')).length, 1)
    const remedied = await start('remedied', (address: string | undefined) => address === undefined)
    assert.deepEqual(remedied.keys, ['ip:unknown', 'ip:198.51.100.1', 'ip:198.51.100.2'])
    assert.deepEqual(remedied.warnings, ['Rate limits count requests without any address together, as ip:unknown'])
  })

  test('the lists of 1.2.3.4 and 10.0.0.0/8 cover the IPv4-mapped spellings, and nothing beside them', async (t) => {
    const { statusesFrom } = await startLogging(t, provider, {
      plugin: { middleware: { denyList: ['1.2.3.4', '10.0.0.0/8', '2001:db8:9::/48'] } },
    })

    assert.deepEqual(
      await statusesFrom(['::ffff:1.2.3.4', '::ffff:10.1.2.3', '10.1.2.3:80', '2001:db8:9:1::1']),
      [403, 403, 403, 403],
    )
    assert.deepEqual(
      await statusesFrom(['::ffff:9.9.9.9', '1.2.3.5', '11.0.0.0', '2001:db8:a::1']),
      [200, 200, 200, 200],
    )
  })
})

describe('a client that hangs up while a hook before the check waits', () => {
  test('is counted by its address, which was read when it connected, and refused by a denying override', async (t) => {
    const { app, hangUp, events, handled } = await startWaiting(t, {})
    await app.smartRateLimit.client.rateLimitOverride.create({
      data: { client: 'ip:127.0.0.1', effect: 'deny', pathPattern: '^/denied$' },
    })
    for (const path of ['/', '/denied']) await hangUp((port) => sendAndLeave(connect(port, '127.0.0.1'), path))

    assert.deepEqual(await events(2), [
      ['/', 'ip:127.0.0.1', true, 100, '127.0.0.1'],
      ['/denied', 'ip:127.0.0.1', false, 0, '127.0.0.1'],
    ])
    assert.deepEqual(handled, ['/'])
  })

  test('is counted by the address that its proxy forwards', async (t) => {
    const { hangUp, events } = await startWaiting(t, { trustProxy: TRUSTED_PROXY })
    await hangUp((port) => sendAndLeave(connect(port, '127.0.0.1'), '/', 'X-Forwarded-For: 203.0.113.7\r\n'))

    assert.deepEqual(await events(1), [['/', 'ip:203.0.113.7', true, 100, '127.0.0.1']])
  })

  test('is counted by its address over TLS', async (t) => {
    const { hangUp, events } = await startWaiting(t, { https: { ...KEYED_TLS, pskCallback: () => TLS_KEY } })
    const pskCallback = () => ({ psk: TLS_KEY, identity: 'test' })
    const options = { ...KEYED_TLS, host: '127.0.0.1', pskCallback, checkServerIdentity: () => undefined }
    await hangUp((port) => sendAndLeave(connectTls({ ...options, port }), '/'))

    assert.deepEqual(await events(1), [['/', 'ip:127.0.0.1', true, 100, '127.0.0.1']])
  })

  for (const trustProxy of [false, true, TRUSTED_PROXY, (address: string) => address.startsWith('127.')]) {
    test(`is refused where it resets an HTTP/2 stream, which has no address any more: with trustProxy ${trustProxy}`, async (t) => {
      const { hangUp, events, handled, log, port } = await startWaiting(t, { ...HTTP2, trustProxy })
      // What is warned about at start is not of the request.
      log.length = 0
      const { session, send, close } = connectHttp2(port)
      atEnd(t, close)
      await hangUp(() => {
        const stream = session.request({ ':path': '/', 'x-forwarded-for': '203.0.113.7' })
        stream.on('error', () => undefined)
        return () => stream.close(constants.NGHTTP2_CANCEL)
      })

      assert.deepEqual(await events(1), [['/', 'ip:unknown', false, 0, null]])
      assert.deepEqual([handled, log], [[], []])
      assert.equal(await send({ ':path': '/at-once' }), 200)
    })
  }

  test('is refused where a server took its connection that is not the one of the app', async (t) => {
    const { app, hangUp, events, handled } = await startWaiting(t, {})
    const other = createServer(app.routing)
    atEnd(t, () => other.close())
    await once(other.listen(0, '127.0.0.1'), 'listening')
    await hangUp(() => sendAndLeave(connect(portOf({ server: other }), '127.0.0.1'), '/'))

    assert.deepEqual(await events(1), [['/', 'ip:unknown', false, 0, null]])
    assert.deepEqual(handled, [])
  })

  test('is answered a refusal to code that asks about it, and uses no counter', async (t) => {
    const { hangUp, asked, events } = await startWaiting(t, HTTP2)
    await hangUp((port) => {
      const { session, close } = connectHttp2(port)
      session.request({ ':path': '/asks' }).on('error', () => undefined)
      return close
    })

    await eventually('the code has asked', () => asked.length === 2)
    assert.deepEqual(asked, [
      { allowed: false, count: 1, limit: 0 },
      { allowed: false, count: 1, limit: 0 },
    ])
    assert.deepEqual(await events(0), [])
  })
})

test('a client that hangs up before its connection is accepted is refused', async (t) => {
  const { port, events, handled } = await startWaiting(t, {})
  const isReset = new Int32Array(new SharedArrayBuffer(4))
  const client = new Worker(
    `const { connect } = require('node:net')
     const { workerData: { port, isReset } } = require('node:worker_threads')
     const socket = connect(port, '127.0.0.1', () => socket.write('GET /at-once HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n', () => socket.resetAndDestroy()))
     socket.on('close', () => {
       Atomics.store(isReset, 0, 1)
       Atomics.notify(isReset, 0)
     })`,
    { eval: true, workerData: { port, isReset } },
  )
  await once(client, 'online')
  // This thread accepts nothing meanwhile.
  Atomics.wait(isReset, 0, 0)
  await once(client, 'exit')

  assert.deepEqual(await events(1), [['/at-once', 'ip:unknown', false, 0, null]])
  assert.deepEqual(handled, [])
})

test('a trustProxy function that fails makes limits count the peer, and is reported once', async (t) => {
  const { keysOf, log } = await startLogging(t, 'sqlite', {
    fastify: {
      trustProxy: (address) => {
        if (address === 'garbage') throw new Error('no address')
        return address === '127.0.0.1'
      },
    },
    plugin: { middleware: { allowList: ['127.0.0.0/8'] } },
  })

  assert.deepEqual(await keysOf(['6.6.6.6, garbage', '7.7.7.7, garbage', '203.0.113.7']), [
    'ip:127.0.0.1',
    'ip:127.0.0.1',
    'ip:203.0.113.7',
  ])
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ["Fastify's trustProxy failed: no address. Limits count the peer of such requests"],
  )
})

test("the request.ip that a host's own decorator reads is the client's address, also without trustProxy", async (t) => {
  const { request } = await startApp(t, {
    database: await openDatabase(t, 'sqlite'),
    fastify: { trustProxy: false },
    plugin: { middleware: { backend: 'memory', defaultRate: '1/m' } },
    before: (app) => {
      app.decorateRequest('ip', {
        getter() {
          return String(this.headers['cf-connecting-ip'])
        },
      })
    },
  })
  const statusFor = async (ip: string) => (await request('/', { headers: { 'cf-connecting-ip': ip } })).status

  assert.deepEqual(
    [await statusFor('203.0.113.7'), await statusFor('203.0.113.8'), await statusFor('203.0.113.7')],
    [200, 200, 429],
  )
})

/** An app that logs events, asked from several addresses. */
async function startLogging(
  t: TestContext,
  provider: Provider,
  { plugin, fastify = {} }: { plugin?: RateLimitOptions; fastify?: FastifyServerOptions },
) {
  const database = await openDatabase(t, provider)
  const started = await startApp(t, { database, fastify, plugin: { logEvents: true, ...plugin } })
  const { app, request } = started

  async function events() {
    await app.smartRateLimit.events.flush()
    return database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  }
  async function statusesFrom(addresses: readonly (string | undefined)[]): Promise<number[]> {
    const statuses: number[] = []
    for (const from of addresses) statuses.push((await request('/', from === undefined ? {} : { from })).status)
    return statuses
  }
  /** The keys that requests from these addresses were logged with. */
  async function keysOf(addresses: readonly (string | undefined)[]): Promise<string[]> {
    await statusesFrom(addresses)
    return (await events()).slice(-addresses.length).map(({ key }) => key)
  }
  return { ...started, events, keysOf, statusesFrom }
}

/** TLS without a certificate. */
const KEYED_TLS = { ciphers: 'PSK-AES128-GCM-SHA256', maxVersion: 'TLSv1.2' } as const
const TLS_KEY = Buffer.alloc(16, 1)

/** An app whose first hook lets each request wait until its client has hung up, but for those of `/at-once`. */
async function startWaiting(t: TestContext, fastify: FastifyServerOptions & { readonly https?: ServerOptions }) {
  const { client, ...database } = await openDatabase(t, 'sqlite')
  const waiting = new EventEmitter()
  const handled: string[] = []
  const asked: unknown[] = []
  const started = await startApp(t, {
    database: { client, ...database },
    fastify: { trustProxy: false, ...fastify },
    plugin: { logEvents: true, useDynamicRules: true },
    before: (app) => {
      app.addHook('onRequest', async (request, reply) => {
        if (request.url === '/at-once') return
        waiting.emit('arrived')
        await once(reply.raw, 'close')
      })
    },
    routes: (app) => {
      app.get('/asks', { config: { smartRateLimit: false } }, async (request) => {
        for (const ask of [app.smartRateLimit.check, app.smartRateLimit.peek]) {
          const decision = await ask(request)
          asked.push(decision && { allowed: decision.allowed, count: decision.count, limit: decision.limit })
        }
      })
      app.get('/*', async (request) => {
        handled.push(request.url)
        return 'ok'
      })
    },
  })
  return {
    ...started,
    handled,
    asked,
    /** @param send sends a request, and answers what makes its client hang up */
    async hangUp(send: (port: number) => () => void) {
      const arrived = once(waiting, 'arrived')
      const leave = send(started.port)
      await arrived
      leave()
    },
    /** Waits for so many events. */
    async events(count: number) {
      await eventually(`${count} events`, async () => {
        await started.app.smartRateLimit.events.flush()
        return (await client.rateLimitEvent.count()) >= count
      })
      const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
      return events.map(({ path, key, allowed, limit, ipAddress }) => [path, key, allowed, limit, ipAddress])
    },
  }
}

/** Sends a request, and answers what resets its connection; TLS has to close it. */
function sendAndLeave(socket: Socket, path: string, headers = ''): () => void {
  socket.on('error', () => undefined)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
  return () => (socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy())
}

function statusOver(socketPath: string, forwardedFor?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor }
    const sent = httpRequest({ socketPath, path: '/', agent: false, headers }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject)
    sent.end()
  })
}

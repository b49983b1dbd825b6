/** Whose request is it? By address: behind proxies and without, on IPv4, IPv6 and Unix sockets. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FastifyServerOptions } from 'fastify'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp, WARN } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'

forEachDatabase((provider) => {
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

  test('an event tells the peer as ip_address and the client as client_ip', async (t) => {
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
      'ip:fe80::/64',
    ])
  })

  test('a forwarded text that is no address counts as the peer that sent it', async (t) => {
    const { keysOf } = await startLogging(t, provider, {})
    const garbage = ['garbage', '999.1.1.1', '1.2.3', "'; DROP TABLE rate_limit_event; --", 'x'.repeat(5_000), ',,,']

    assert.deepEqual(await keysOf(garbage), Array(garbage.length).fill('ip:127.0.0.1'))
  })

  test('the classic wrong trustProxy is warned about once: a forwarding header from a private peer that is not trusted', async (t) => {
    const { keysOf, log } = await startLogging(t, provider, { fastify: { trustProxy: false } })
    await keysOf([undefined, '203.0.113.7', '203.0.113.8'])

    const warnings = log.filter(({ level, msg }) => level === WARN && /trustProxy/.test(msg))
    assert.equal(warnings.length, 1)
    assert.match(warnings[0]?.msg ?? '', /127\.0\.0\.1/)
  })

  test('with the right trustProxy nothing is warned about', async (t) => {
    const { keysOf, log } = await startLogging(t, provider, {})
    await keysOf([undefined, '203.0.113.7', '203.0.113.8'])

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

  test('the lists of 1.2.3.4 and 10.0.0.0/8 cover the IPv4-mapped spellings, and nothing beside them', async (t) => {
    const { statusesFrom } = await startLogging(t, provider, {
      plugin: { middleware: { denyList: ['1.2.3.4', '10.0.0.0/8', '2001:db8:9::/48'] } },
    })

    assert.deepEqual(
      await statusesFrom(['::ffff:1.2.3.4', '::ffff:10.1.2.3', '10.1.2.3:80', '2001:db8:9:1::1']),
      [429, 429, 429, 429],
    )
    assert.deepEqual(
      await statusesFrom(['::ffff:9.9.9.9', '1.2.3.5', '11.0.0.0', '2001:db8:a::1']),
      [200, 200, 200, 200],
    )
  })
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

function statusOver(socketPath: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ socketPath, path: '/', agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject)
    sent.end()
  })
}

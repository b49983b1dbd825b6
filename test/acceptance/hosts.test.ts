/** The plugin in hosts that other plugins, frameworks and test tools set up. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import fastifyWebsocket from '@fastify/websocket'
import type { FastifyInstance } from 'fastify'
import { startApp } from '../support/build-app.js'

const ONCE = { defaultRate: '1/m' }
const UPGRADE = [
  'GET / HTTP/1.1',
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  '\r\n',
].join('\r\n')

test('without a clock of its own the plugin follows fake timers of the host', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 15, 12) })
  const { statuses } = await startApp(t, { database: null, plugin: { clock: undefined, middleware: ONCE } })
  assert.deepEqual(await statuses(2, '/'), [200, 429])
  t.mock.timers.tick(60_000)
  assert.deepEqual(await statuses(2, '/'), [200, 429])
})

test('a refused upgrade ends its connection, so that the app can close, in either order with @fastify/websocket', async (t) => {
  const register = async (app: FastifyInstance) => {
    await app.register(fastifyWebsocket)
  }
  for (const order of ['before', 'routes'] as const) {
    const { app, port } = await startApp(t, {
      database: null,
      plugin: { middleware: { defaultRate: '0/m' } },
      [order]: register,
    })
    // A client that keeps its side of the connection open.
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    client.setTimeout(5_000, () => client.destroy(new Error(`The connection stays open, with the plugin ${order}`)))
    client.write(UPGRADE)
    assert.match(await text(client), /^HTTP\/1\.1 429 /, order)
    await app.close()
    client.destroy()
  }
})

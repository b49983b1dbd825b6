/** A server that was made a replica while connections to it stay open, as after a failover by name. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openRedis } from '../../src/database/open-redis.js'
import { atEnd } from '../support/at-end.js'
import { eventually } from '../support/eventually.js'
import { startSocketServer } from '../support/socket-server.js'

/** Stands for a replica: it refuses scripts with a message, and counts connections. */
async function startReplica(t: TestContext, refusal: string) {
  const { port, connections } = await startSocketServer(t, (socket) => {
    socket.on('data', (data) => {
      for (const [, name] of String(data).matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g)) {
        socket.write(name?.toLowerCase() === 'evalsha' ? `-${refusal}\r\n` : '+OK\r\n')
      }
    })
  })
  return { url: `redis://127.0.0.1:${port}`, connections }
}

const REFUSALS = {
  'Redis 7 and Valkey': "READONLY You can't write against a read only replica. script: 6d2c, on @user_script:17.",
  'Redis 6':
    "ERR Error running script (call to f_6d2c): @user_script:17: @user_script: 17: -READONLY You can't write against a read only replica. ",
} as const

for (const [server, refusal] of Object.entries(REFUSALS)) {
  test(`a server that has become a replica is left for the one that its name leads to now: ${server}`, async (t) => {
    const { url, connections } = await startReplica(t, refusal)
    const client = await openRedis(url)
    atEnd(t, () => client.disconnect())
    client.on('error', () => undefined)
    await client.connect()
    assert.equal(connections(), 1)

    await assert.rejects(client.evalsha('6d2c', 0), /READONLY/)
    await eventually('it connects anew', () => connections() === 2)
  })
}

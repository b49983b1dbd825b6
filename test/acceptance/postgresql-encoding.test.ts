/** A PostgreSQL database that cannot hold every key is none that limits can be kept in. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Fastify from 'fastify'
import { createAnalytics, migrate, rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { type LogLine, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { createDatabase } from '../support/postgresql-databases.js'
import { ratelimit } from '../support/scripts.js'
import { startProxyBefore } from '../support/tcp-proxy.js'

function complaintOf(name: string, encoding: string): RegExp {
  return new RegExp(
    `^Setting "database" leads to the PostgreSQL database "${name}", whose server_encoding is ${encoding}: .* ENCODING 'UTF8' TEMPLATE template0$`,
  )
}

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  // SQL_ASCII takes any bytes, and counts them: 255 characters that are not ASCII are too long for the column of a key.
  for (const encoding of ['LATIN1', 'SQL_ASCII', 'EUC_JP']) {
    test(`a database of the encoding ${encoding} is refused at start, with the remedy`, async (t) => {
      const { url, name } = await createDatabase(t, { encoding })
      const refused = { code: 'FST_RATE_LIMIT_INVALID_SETTING', message: complaintOf(name, encoding) }

      await assert.rejects(migrate({ database: url }), refused)
      const app = Fastify()
      atEnd(t, () => app.close())
      await assert.rejects(async () => {
        await app.register(rateLimitPlugin, { database: url })
      }, refused)
      const analytics = createAnalytics({ database: url })
      await assert.rejects(analytics.getTrafficSummary(), refused)
      await analytics.close()
    })
  }

  test('a command that is given such a database says so in one line', async (t) => {
    const { url, name } = await createDatabase(t, { encoding: 'LATIN1' })
    const { status, stderr } = await ratelimit(['migrate'], { env: { RATELIMIT_DATABASE_URL: url } })
    assert.equal(status, 1)
    assert.match(stderr.replace(/^ratelimit migrate: |\n$/g, ''), complaintOf(name, 'LATIN1'))
  })

  const USES = {
    counters: { middleware: { backend: 'database' } },
    events: { logEvents: true, middleware: { backend: 'memory' } },
    rules: { useDynamicRules: true, middleware: { backend: 'memory' } },
  } as const
  for (const [use, plugin] of Object.entries(USES)) {
    test(`one that is away when the server starts, and is reached by its ${use}, is logged once`, long(), async (t) => {
      const { url, name } = await createDatabase(t, { encoding: 'LATIN1' })
      const { proxy, url: behindProxy } = await startProxyBefore(t, url, 5432)
      await proxy.switchOff()
      const { statuses, log, clock } = await startApp(t, {
        database: null,
        plugin: { database: behindProxy, ...plugin, middleware: { ...plugin.middleware, defaultRate: '1000/h' } },
      })
      const complaints = () => log.filter(({ msg }: LogLine) => msg.startsWith('Rate limit database: Setting '))
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      assert.deepEqual(complaints(), [])

      await proxy.switchOn()
      const asksAgain = async () => {
        clock.advance(61_000)
        return (await statuses(1, '/'))[0] === 200 && complaints().length > 0
      }
      await eventually('the encoding is complained about', asksAgain)
      for (let round = 0; round < 5; round++) await asksAgain()

      assert.equal(complaints().length, 1)
      assert.match(complaints()[0]?.err?.message ?? '', complaintOf(name, 'LATIN1'))
    })
  }
})

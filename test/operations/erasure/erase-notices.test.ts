/** The notices of one client are deleted, with the memory of their messages, and those of others stay. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../../src/ground/time/clock.js'
import { eraseClient } from '../../../src/operations/erasure/erase-client.js'
import { openDatabase } from '../../support/build-app.js'
import { forEachDatabase } from '../../support/databases.js'
import { startNoticeApp } from '../../support/notice-app.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

forEachDatabase((provider) => {
  test('a user goes, and look-alikes stay', async (t) => {
    const opened = await openDatabase(t, provider)
    const receiver = await startWebhookReceiver(t)
    const { app, use } = await startNoticeApp(t, opened, { plugin: { alertWebhook: receiver.url } })
    for (const user of ['7', '77', 'x7']) await use(1_000, user)
    await app.close()
    const { database } = opened
    const dependencies = { database, clock: systemClock, ipv6Subnet: 64, privacy: undefined, redis: undefined }
    const erase = (dryRun: boolean) => {
      const others = { namespace: undefined, eventSpool: undefined }
      return eraseClient({ ...dependencies, ...others }, 'user:7', { dryRun, batchSize: 2 })
    }
    const rows = (table: string) => database.query<{ client: string }>(`SELECT * FROM ${database.dialect.table(table)}`)
    assert.equal((await erase(true)).alerts, 2)
    assert.equal((await rows('rate_limit_notice')).length, 6)
    assert.equal((await erase(false)).alerts, 2)
    const left = (await rows('rate_limit_notice')).map(({ client }) => client)
    assert.deepEqual([...new Set(left)].toSorted(), ['user:77', 'user:x7'])
    assert.equal((await rows('rate_limit_alert')).length, 4)
    assert.equal((await erase(false)).alerts, 0)
  })
})

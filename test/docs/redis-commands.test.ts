/** The page on Redis lists the commands that a user of the server needs: all that are sent, and no others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../support/eventually.js'
import { ownRedisMissing, startOwnRedis } from '../support/own-redis.js'
import { allowListed, deniedBy, LISTED, useAll } from '../support/redis-commands.js'

test('a user who may do what the page lists can do all, and needs all of it', { skip: ownRedisMissing }, async (t) => {
  const { url, client } = await startOwnRedis(t)
  const { sent } = await allowListed(t, client)
  await useAll(Object.assign(url, { username: 'limits', password: 'word', pathname: '/1' }).href)

  assert.equal(await deniedBy(client), '[]')
  await eventually('all of it was seen', () => sent.has('scan'))
  assert.deepEqual(
    [...sent].sort(),
    LISTED.filter((name) => name !== 'cluster'),
  )
})

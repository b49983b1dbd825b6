/** The page on Redis lists the commands that a user of a cluster needs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cluster } from 'ioredis'
import { atEnd } from '../support/at-end.js'
import { clusterMissing, startCluster } from '../support/redis-cluster.js'
import { allowListed, deniedBy, LISTED, useAll } from '../support/redis-commands.js'

test('a user who may do what the page lists can do all in a cluster', { skip: clusterMissing }, async (t) => {
  const { url, stop } = await startCluster()
  atEnd(t, stop)
  const cluster = new Cluster([url])
  atEnd(t, () => cluster.disconnect())
  await cluster.ping()
  const nodes = cluster.nodes('master')
  const monitored = await Promise.all(nodes.map((node) => allowListed(t, node)))
  await useAll(Object.assign(new URL(url), { username: 'limits', password: 'word' }).href)

  assert.deepEqual(await Promise.all(nodes.map(deniedBy)), Array(nodes.length).fill('[]'))
  const sent = new Set(monitored.flatMap((each) => [...each.sent]))
  assert.ok(sent.has('cluster'))
  assert.deepEqual(
    [...sent].filter((name) => !LISTED.includes(name)),
    [],
  )
})

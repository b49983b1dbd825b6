import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { MemoryStore } from '../../../src/limiter/stores/memory/memory-store.js'
import { RedisStore } from '../../../src/limiter/stores/redis/redis-store.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import { storeConformance } from '../../conformance/conformance.js'
import { openStore } from '../../support/store-location.js'
import { forEachStore, onRedisCluster, type TestStore } from '../../support/stores.js'

describe('the memory store', () => {
  for (const { name, prove } of storeConformance) test(name, () => prove(() => new MemoryStore()))
})

function proveStore(name: string, open: () => Promise<TestStore>): void {
  describe(`the store on ${name}`, () => {
    let opened: TestStore
    before(async () => {
      opened = await open()
    })
    after(() => opened.close())
    for (const { name, prove } of storeConformance) test(name, () => prove(() => openStore(opened.location)))
  })
}

forEachStore(proveStore)
onRedisCluster(proveStore)

test('a store that a host makes refuses a namespace that counters could be mistaken for', () => {
  for (const namespace of ['', 'a|ip:203.0.113.7', 'a:f', '{a}', 'x'.repeat(51), 'é']) {
    for (const make of [
      () => new DatabaseStore({ namespace }),
      () => new RedisStore({ redis: 'redis://127.0.0.1', namespace }),
    ]) {
      assert.throws(make, /"namespace" is .*: give 1 to 50 letters, digits, _ \. -$/, namespace)
    }
  }
})

import { describe, test } from 'node:test'
import { storeConformance } from '../../src/stores/conformance.js'
import { MemoryStore } from '../../src/stores/memory-store.js'
import { openStore } from '../support/store-place.js'
import { forEachStore, onRedisCluster, type TestPlace } from '../support/stores.js'

describe('the memory store', () => {
  for (const { name, prove } of storeConformance) test(name, () => prove(() => new MemoryStore()))
})

function proveStore(name: string, open: () => Promise<TestPlace>): void {
  describe(`the store on ${name}`, () => {
    for (const { name, prove } of storeConformance) {
      test(name, async () => {
        const { place, close } = await open()
        try {
          await prove(() => openStore(place))
        } finally {
          await close()
        }
      })
    }
  })
}

forEachStore(proveStore)
onRedisCluster(proveStore)

import { describe, test } from 'node:test'
import { storeConformance } from '../../src/stores/conformance.js'
import { DatabaseStore } from '../../src/stores/database-store.js'
import { MemoryStore } from '../../src/stores/memory-store.js'
import { forEachDatabase } from '../support/databases.js'

describe('the memory store', () => {
  for (const { name, prove } of storeConformance) test(name, () => prove(() => new MemoryStore()))
})

forEachDatabase((provider, open) => {
  describe(`the database store on ${provider}`, () => {
    for (const { name, prove } of storeConformance) {
      test(name, async () => {
        const database = await open()
        try {
          await prove(() => new DatabaseStore({ database: database.client, namespace: 'conformance' }))
        } finally {
          await database.close()
        }
      })
    }
  })
})

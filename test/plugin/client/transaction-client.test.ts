import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGeneratedClient } from '../../../src/database/prisma/generated-client.js'
import { batchTransaction, transactionClient } from '../../../src/plugin/client/transaction-client.js'

const CLIENT = createGeneratedClient('file:unused.db', 'unused')
const INTERACTIVE = { __internalParams: { transaction: { kind: 'itx', id: 'x' } } }

test('a write outside of a transaction, or in a list of writes, is checked with the client itself', () => {
  for (const transaction of [undefined, { kind: 'batch' }]) {
    assert.equal(transactionClient(CLIENT, { __internalParams: { transaction } }), CLIENT)
  }
})

test('a version of Prisma that does not expose transactions is refused, instead of read past them', () => {
  assert.notEqual(transactionClient(CLIENT, INTERACTIVE), CLIENT)
  assert.throws(() => transactionClient(CLIENT, {}), /Prisma.s runtime has no __internalParams/)
  const later = Object.create(CLIENT, { _createItxClient: { value: undefined } })
  assert.throws(() => transactionClient(later, INTERACTIVE), /has no _createItxClient/)
  assert.throws(() => batchTransaction({ __internalParams: { transaction: { kind: 'batch' } } }), /has no lock/)
})

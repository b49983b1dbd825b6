import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noteUser } from '../../src/http/request-user.js'
import { ERROR, startApp } from '../support/build-app.js'

/** An id as MongoDB's driver has it: an object with its bytes in a field `id`. */
class ObjectId {
  readonly id = Buffer.from('507f1f77bcf86cd799439011', 'hex')
  toHexString(): string {
    return this.id.toString('hex')
  }
}

class Uuid {
  toString(): string {
    return '7d444840-9dc0-11d1-b245-5ffdce74fad2'
  }
}

function idOf(user: unknown): unknown {
  const checked = { request: Object.create(null), user: null, userFields: null }
  noteUser(checked, user)
  return checked.user
}

test('the id of a user may be an object with a text of its own, alone too', () => {
  for (const id of [new ObjectId(), new Uuid()]) assert.equal(typeof idOf({ id }), 'string')
  assert.equal(idOf({ id: new ObjectId() }), '507f1f77bcf86cd799439011')
  assert.equal(idOf(new ObjectId()), '507f1f77bcf86cd799439011')
  assert.equal(idOf({ id: 7n }), 7n)
})

test('what has no text of its own is no id', () => {
  for (const id of [
    {},
    [7],
    Buffer.from('7'),
    null,
    undefined,
    true,
    Number.NaN,
    Object.create(null),
    () => '7',
    { toHexString() {} },
  ]) {
    assert.equal(idOf({ id }), null)
  }
})

test('an id whose spelling fails is none: it is logged once, and conditions see the user all the same', async (t) => {
  const broken = { toString: () => assert.fail('of the host'), toHexString: () => assert.fail('of the host') }
  const users: readonly unknown[] = [{ ...broken, toHexString: undefined }, broken].map((id) => ({ id, plan: 'free' }))
  for (const user of users) {
    const { app, statuses, log } = await startApp(t, {
      database: 'sqlite',
      plugin: { useDynamicRules: true },
      before: (host) =>
        void host.decorateRequest('user').addHook('onRequest', async (request) => Object.assign(request, { user })),
    })
    const rule = { name: 'free', pathPattern: '^/', condition: "user.plan == 'free'", rate: '1/m', key: 'user' }
    await app.smartRateLimit.client.rateLimitRule.create({ data: rule })
    assert.deepEqual(await statuses(3, '/'), [200, 429, 429])
    assert.deepEqual(
      log.filter(({ level }) => level === ERROR).map(({ msg }) => msg),
      ['Rate limit setting "user" failed: of the host'],
    )
  }
})

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { countsBy, countsByUser, parseClientKind } from '../../src/clients/client-kind.js'

const WRONG: readonly (readonly [key: unknown, message: RegExp])[] = [
  ['', /"" is not a valid key: give ip, user or header/],
  ['ip+', /"" is not a valid key/],
  ['+ip', /"" is not a valid key/],
  ['ip + user', /"ip " is not a valid key/],
  ['IP', /"IP" is not a valid key/],
  ['ip,user', /"ip,user" is not a valid key/],
  ['all+ip', /has "all" beside other kinds: give all alone/],
  ['ip+all', /has "all" beside other kinds/],
  ['ip+ip', /has "ip" twice/],
  ['header:X-A+ip+header:x-a', /has "header:x-a" twice/],
  ['ip+user+route+cookie:a', /has 4 kinds: give at most 3/],
  ['header:X|Y', /"header:X\|Y" is not a valid key.*no \+ and no \|/],
  ['header:X+Y', /"Y" is not a valid key.*no \+ and no \|/],
  ['cookie:a|b', /"cookie:a\|b" is not a valid key/],
  ['cookie:', /"cookie:" is not a valid key/],
  ['cookie:a b', /"cookie:a b" is not a valid key/],
  ['user.', /names no field of the user: give a letter, then at most 49 of letters, digits and _, such as user.org/],
  ['user.1a', /"user.1a" names no field of the user/],
  ['user._a', /names no field/],
  ['ip+user.a-b', /"user.a-b" names no field/],
  ['user.a.b', /names no field/],
  ['user.é', /names no field/],
  [`user.${'a'.repeat(51)}`, /names no field/],
  ['user.org+user.org', /has "user.org" twice/],
  ['ip+header:__proto__', /Node\.js does not keep/],
  [`header:${'a'.repeat(101)}`, /is not a valid key/],
  [['header', 'header', 'cookie'].map((kind, index) => `${kind}:${'abc'[index]?.repeat(90)}`).join('+'), /at most 255/],
  [7, /must be a text/],
]

describe('what requests are counted by', () => {
  for (const [key, message] of WRONG) {
    test(`${JSON.stringify(key).slice(0, 60)} is refused`, () => assert.throws(() => parseClientKind(key), message))
  }

  test('is a kind, up to three of them in their order, or all', () => {
    assert.deepEqual(parseClientKind('route'), { kind: 'route' })
    assert.deepEqual(parseClientKind('all'), { kind: 'all' })
    assert.deepEqual(parseClientKind('user.orgId_2'), { kind: 'userField', name: 'orgId_2' })
    assert.deepEqual(parseClientKind(`user.${'a'.repeat(50)}`), { kind: 'userField', name: 'a'.repeat(50) })
    assert.deepEqual(parseClientKind('cookie:Sid'), { kind: 'cookie', name: 'Sid' })
    assert.deepEqual(parseClientKind('user+header:X-A+header:x-b'), {
      kind: 'composite',
      parts: [{ kind: 'user' }, { kind: 'header', name: 'x-a' }, { kind: 'header', name: 'x-b' }],
    })
    // A cookie's name has upper and lower case.
    assert.equal(countsBy(parseClientKind('cookie:a+cookie:A'), 'cookie'), true)
    assert.equal(countsBy(parseClientKind('ip+route'), 'user'), false)
    assert.equal(countsBy(parseClientKind('user.org'), 'user'), false)
    assert.deepEqual(
      ['user', 'ip+user.org', 'user.Org+user.org', 'ip+route', 'all'].map((key) => countsByUser(parseClientKind(key))),
      [true, true, true, false, false],
    )
  })
})

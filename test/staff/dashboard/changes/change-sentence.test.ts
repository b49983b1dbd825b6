/** What a change did, in a sentence. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Change } from '../../../../src/rules/history/history.js'
import { describeChange } from '../../../../src/staff/dashboard/changes/change-sentence.js'

type Described = Pick<Change, 'entity' | 'name' | 'action' | 'before' | 'after'>

const RULE = { name: 'login', pathPattern: '^/login', rate: '5/m', isActive: true, block: true, priority: 0 }
const BLOCK = {
  client: 'ip:203.0.113.7',
  effect: 'deny',
  pathPattern: '',
  expiresAt: Date.UTC(2026, 0, 15, 14),
  note: '',
}

const SENTENCES: readonly (readonly [change: Described, sentence: string])[] = [
  [rule('update', RULE, { ...RULE, rate: '10/m' }), 'changed the rate of rule login from 5/m to 10/m'],
  [rule('update', RULE, { ...RULE, isActive: false }), 'switched rule login off'],
  [rule('update', RULE, { ...RULE, block: false }), 'changed the blocking of rule login from yes to no'],
  [rule('update', RULE, { ...RULE, group: 'team' }), 'changed the group of rule login from none to team'],
  [
    rule('update', { ...RULE, group: 'team' }, { ...RULE, group: '' }),
    'changed the group of rule login from team to none',
  ],
  [rule('update', { ...RULE, name: 'sign-in' }, RULE), 'renamed rule sign-in to login'],
  [
    rule('update', RULE, { ...RULE, rate: '10/m', priority: 3 }),
    'changed the rate from 5/m to 10/m and the priority from 0 to 3 of rule login',
  ],
  [rule('create', null, RULE), 'created rule login with path pattern ^/login and rate 5/m'],
  [
    rule('create', null, { ...RULE, method: 'POST', priority: 3, cost: 2, banAfter: 5 }),
    'created rule login with path pattern ^/login, methods POST, rate 5/m and 3 more fields',
  ],
  [rule('delete', RULE, null), 'deleted rule login with path pattern ^/login and rate 5/m'],
  [override('create', null, BLOCK), 'denied ip:203.0.113.7 until 2026-01-15 14:00:00 UTC'],
  [override('delete', BLOCK, null), 'ended the block of ip:203.0.113.7'],
  [
    override('update', BLOCK, { ...BLOCK, expiresAt: null }),
    'changed the end of the override of ip:203.0.113.7 from 2026-01-15 14:00:00 UTC to none',
  ],
]

test('a change is a sentence that names what differs', () => {
  for (const [change, sentence] of SENTENCES) assert.equal(describeChange(change).sentence, sentence)
})

test('the fields of a change are side by side, and those of a created row are the ones that are not the default', () => {
  const { fields } = describeChange(rule('update', RULE, { ...RULE, rate: '10/m' }))
  assert.deepEqual(fields, [{ name: 'rate', title: 'Rate', noun: 'rate', before: '5/m', after: '10/m' }])
  const created = describeChange(rule('create', null, RULE)).fields
  assert.deepEqual(
    created.map(({ name, before, after }) => [name, before, after]),
    [
      ['name', undefined, 'login'],
      ['pathPattern', undefined, '^/login'],
      ['rate', undefined, '5/m'],
    ],
  )
})

function rule(action: Change['action'], before: Change['before'], after: Change['after']): Described {
  return { entity: 'rule', name: 'login', action, before, after }
}

function override(action: Change['action'], before: Change['before'], after: Change['after']): Described {
  return { entity: 'override', name: 'ip:203.0.113.7', action, before, after }
}

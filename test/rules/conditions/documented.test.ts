import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../../../src/ground/package-root.js'
import { parseCondition } from '../../../src/rules/conditions/condition.js'
import { RULES } from '../../../src/rules/rule.js'
import { TestFacts } from '../../support/condition-facts.js'

const facts = new TestFacts({
  method: 'POST',
  path: '/api/x',
  route: '/items/:id',
  user: { id: 1, plan: 'free', roles: ['admin'] },
  headers: { 'x-plan': 'gold', 'user-agent': 'Googlebot' },
  query: { page: '1' },
  lists: { includes: (name) => name === 'tor' },
  geo: { country: () => 'DE', operator: () => ({ asn: 64_500n, name: 'Example' }) },
})

test('the conditions of the documentation are valid, and hold for what they say', () => {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs/reference/conditions.md'), 'utf8')
  const conditions = [...page.matchAll(/^\| `(.+?)` \|/gm)]
    .slice(0, 6)
    .map(([, text = '']) => text.replaceAll('\\|', '|'))
  assert.equal(conditions.length, 6)
  const user = { plan: 'pro', roles: ['admin'] }
  for (const text of conditions) {
    const holds = (facts: TestFacts) => parseCondition(text)?.holds(facts)
    assert.ok(holds(facts) || holds(new TestFacts({ user })), text)
  }
})

test('the conditions below the field of the panel are valid', () => {
  const { help, panel } = RULES.fields.condition
  const [, examples = ''] = help.split('in CEL: ')
  const conditions = examples.replace(/\.$/, '').split(/, or /)
  assert.equal(conditions.length, 6)
  for (const text of [...conditions, panel.example]) assert.equal(parseCondition(text)?.holds(facts), true, text)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fastify } from 'fastify'
import { addressBelow, returnAddress } from '../../../src/staff/shell/request-query.js'

test('a sign-in leads to the requested page below the same mount', () => {
  for (const [given, expected] of [
    ['', './'],
    ['?days=30&path=%2Fauth', './?days=30&path=%2Fauth'],
    ['offender.html?key=ip%3A203.0.113.7', './offender.html?key=ip%3A203.0.113.7'],
    ['resources/rules/records/1/edit', './resources/rules/records/1/edit'],
  ] as const) {
    assert.equal(returnAddress(given), expected)
  }
})

test('a sign-in after a refused action leads to the page of its form, where that is below the same mount', async () => {
  const app = fastify()
  app.all('/ops/*', async (request) => addressBelow('/ops/', request))
  const from = async (referer?: string) =>
    (await app.inject({ method: 'POST', url: '/ops/block', headers: { ...(referer && { referer }) } })).body
  assert.equal(await from('https://shop.example/ops/client.html?client=user%3A7'), 'client.html?client=user%3A7')
  for (const referer of [undefined, '', 'https://shop.example/pay', 'ops', `https://a/ops/?${'x'.repeat(5_000)}`]) {
    assert.equal(await from(referer), '', referer)
  }
  assert.equal((await app.inject('/ops/?days=1')).body, '?days=1')
})

test('a sign-in leads to no other site and to no other part of this one, however the address is spelled', () => {
  for (const given of [
    '../../pay',
    '..%2f..%2fpay/../../../pay',
    '..',
    '..\\..\\evil.example',
    '/../..//evil.example',
    `?${'x'.repeat(5_000)}`,
  ]) {
    assert.equal(returnAddress(given), './', given)
  }
  for (const given of [
    '//evil.example/',
    'https://evil.example/',
    '\\\\evil.example',
    'a\r\nset-cookie: x=1',
    '@evil.example',
  ]) {
    const target = new URL(returnAddress(given), 'https://shop.example/ops/dashboard/sign-in')
    assert.equal(target.origin, 'https://shop.example', given)
    assert.ok(target.pathname.startsWith('/ops/dashboard/'), given)
    assert.doesNotMatch(returnAddress(given), /[\r\n]/)
  }
})

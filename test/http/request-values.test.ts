/** What headers say about a client: a value that the host reads alike in two spellings is one client. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fastifyCookie from '@fastify/cookie'
import Fastify, { type FastifyRequest } from 'fastify'
import { cookieValue, headerValue } from '../../src/http/request-values.js'

/** A request as far as the values of its headers need one. */
function requestWith(headers: Record<string, string>, more: object = {}): FastifyRequest {
  return { headers, ...more } as FastifyRequest
}

type Cookies = { readonly [name: string]: string | undefined; readonly sid?: string | undefined }

/** Parses as `@fastify/cookie` 10 does: the last character goes with a quote at the begin, and blanks are JavaScript's. */
function parseQuoted(header: string): Cookies {
  const cookies: Record<string, string> = {}
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=')
    if (equals === -1) continue
    const name = pair.slice(0, equals).trim()
    const raw = pair.slice(equals + 1)
    const value = raw.startsWith('"') ? raw.slice(1, -1).trim() : raw.trim()
    cookies[name] ??= decode(value)
  }
  return cookies
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const PIECES = ['a', 'b', '"', ' ', '\t', '\u00a0', '%22', '%20', '%61', '%', ';', 'sid', '=']
const LENGTH = 4

/** Yields all texts of up to so many pieces. */
function* texts(length: number): Generator<string> {
  yield ''
  if (length === 0) return
  for (const rest of texts(length - 1)) for (const piece of PIECES) yield piece + rest
}

const app = Fastify()
await app.register(fastifyCookie)

for (const [parser, parse] of Object.entries({
  '@fastify/cookie': (header: string): Cookies => app.parseCookie(header),
  '@fastify/cookie 10': parseQuoted,
})) {
  test(`cookies that ${parser} reads alike are one client, or have no value`, () => {
    const values = new Map<string, string>()
    let count = 0
    for (const begin of ['sid=', 'sid="', 'sid=a;', '\u00a0sid=a;sid=', 'sid\u00a0=b;sid=']) {
      for (const text of texts(LENGTH)) {
        const cookie = begin + text
        const read = parse(cookie).sid ?? ''
        const value = cookieValue(requestWith({ cookie }), 'sid')
        if (read.trim() === '' || value === '') continue
        count++
        assert.equal(values.get(read) ?? value, value, JSON.stringify(cookie))
        values.set(read, value)
      }
    }
    assert.ok(count > 10_000 && values.size > 100)
  })
}

describe('a cookie', () => {
  for (const [cookie, value] of [
    ['sid=abc', 'abc'],
    ['sid="abc"', 'abc'],
    ['sid=" abc\u00a0"', 'abc'],
    ['sid=\u00a0abc', 'abc'],
    ['a=1; sid = a%62c; sid=other', 'abc'],
    ['sid=%22abc%22', 'abc'],
    ['sid="abcX', ''],
    ['sid="', ''],
    ['\u00a0sid=abc; sid=other', ''],
    ['sid=%E0%A4%A', '%E0%A4%A'],
    ['SID=abc', ''],
    ['sid', ''],
    ['', ''],
  ] as const) {
    test(`of ${JSON.stringify(cookie)} is ${JSON.stringify(value)}`, () =>
      assert.equal(cookieValue(requestWith({ cookie }), 'sid'), value))
  }

  test('is what the host has parsed, and is missing where the host found none', () => {
    const read = (cookies: unknown, name = 'sid') => cookieValue(requestWith({ cookie: 'sid=raw' }, { cookies }), name)
    assert.equal(read({ sid: '"abc' }), '"abc')
    assert.equal(read({ sid: ' ' }), '')
    assert.equal(read({ other: 'a' }), '')
    assert.equal(read({}, 'constructor'), '')
    assert.equal(read(null), 'raw')
  })

  test('with many blanks is read in a time that grows with its length', () => {
    const cookie = `sid=a${' "'.repeat(500_000)}b`
    assert.equal(cookieValue(requestWith({ cookie }), 'sid'), cookie.slice('sid='.length))
  })
})

test('the scheme of credentials is read in any case, with any blanks behind it; no other header is', () => {
  for (const authorization of ['Bearer AbC', 'bearer AbC', 'BEARER \u00a0 AbC ', ' Bearer\tAbC']) {
    assert.equal(headerValue(requestWith({ authorization }), 'authorization'), 'bearer AbC')
  }
  assert.equal(headerValue(requestWith({ authorization: 'AbC' }), 'authorization'), 'AbC')
  assert.equal(headerValue(requestWith({ 'x-api-key': 'Bearer  AbC' }), 'x-api-key'), 'Bearer  AbC')
})

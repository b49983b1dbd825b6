import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Fastify from 'fastify'
import { createRoutedPath, PathPrefixes, readRouterOptions } from '../../src/http/request-path.js'

const AS_FASTIFY_COMES = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
}

describe('the path of a request target', () => {
  for (const [target, path, options = {}] of [
    ['/early', '/early'],
    ['/%65arly?x=/other#y', '/early'],
    ['/early#x?y', '/early'],
    ['/early;v=1', '/early;v=1'],
    ['/early;v=1', '/early', { useSemicolonDelimiter: true }],
    ['/a%2Fb%3f', '/a%2Fb%3f'],
    ['/a%252Fb%25', '/a%252Fb%25'],
    ['/a%C3%A9%20', '/aé '],
    ['/%zz', '/%zz'],
    // What is no UTF-8 stays, and hides nothing beside it.
    ['/%ff%61', '/%ffa'],
    ['/%6cogin/%C3%A9%C0%AF%E2%82%ED%A0%80%F5%80%80%80%zz%', '/login/é%C0%AF%E2%82%ED%A0%80%F5%80%80%80%zz%'],
    ['/%25%FF%2561%2F%E2%82%AC%F0%9F%98%80', '/%25%FF%2561%2F€😀'],
    ['//a///b', '//a///b'],
    ['//a///b', '/a/b', { ignoreDuplicateSlashes: true }],
    ['/Early/%41', '/Early/A'],
    ['/Early/%41', '/early/a', { caseSensitive: false }],
    ['/ap%C4%B0/x', '/api\u0307/x', { caseSensitive: false }],
    ['http://host/x?y', '/x'],
    ['HTTPS://a:b@host:81//x', '//x'],
    ['http://host', '/'],
    ['http://host?x=/early', '/'],
    ['ftp://host/x', '/tp://host/x'],
    ['', '/'],
    ['*', '/'],
    ['*early', '/early'],
    ['?early?x', '/early'],
    ['#%65arly#x', '/early'],
    [';early;x', '/early', { useSemicolonDelimiter: true }],
    ['x/early', '//early'],
    ['x//early', '//early', { ignoreDuplicateSlashes: true }],
    // An escape at the first character is only decoded with a later one, and what counts is what comes of it.
    ['%61early', '/61early'],
    ['%61early%2F', '/61early%2F'],
    ['%61early%20', '/early '],
    ['%C3%A9early%20', '/early '],
    ['%25early%20', '/early '],
    ['%C4%B0early%41', '/\u0307earlya', { caseSensitive: false }],
  ] as const) {
    test(`${target} is ${path}, with ${JSON.stringify(options)}`, () =>
      assert.equal(createRoutedPath({ ...AS_FASTIFY_COMES, ...options })(target), path))
  }

  test('begins with all of a target without a slash where the route * gets that', () => {
    const routedPath = createRoutedPath(AS_FASTIFY_COMES)
    assert.deepEqual(
      ['*', 'early', '/early', 'http://host/early', 'http://host'].map((target) => routedPath(target, true)),
      ['/*', '/early', '/early', '/early', '/'],
    )
  })
})

describe('the options of a router', () => {
  for (const [options, caseSensitive, ignoreTrailingSlash] of [
    [{}, true, false],
    [{ caseSensitive: false, ignoreTrailingSlash: true }, false, true],
    [{ routerOptions: { caseSensitive: false, ignoreTrailingSlash: true } }, false, true],
    [{ caseSensitive: false, routerOptions: { ignoreTrailingSlash: true } }, false, true],
    [{ caseSensitive: false, routerOptions: { caseSensitive: true } }, true, false],
  ] as const) {
    test(`are those of ${JSON.stringify(options)}`, async () => {
      const app = Fastify(options)
      await app.close()
      assert.deepEqual(readRouterOptions(app), { ...AS_FASTIFY_COMES, caseSensitive, ignoreTrailingSlash })
    })
  }
})

describe('path prefixes', () => {
  const prefixes = new PathPrefixes(
    [
      ['/auth', 'auth'],
      ['/auth/login/', 'login'],
      ['/files/', 'files'],
      ['/100%', 'percent'],
    ],
    AS_FASTIFY_COMES,
  )

  for (const [path, found] of [
    ['/auth', 'auth'],
    ['/100%25', 'percent'],
    ['/auth/', 'auth'],
    ['/auth/x', 'auth'],
    ['/authors', undefined],
    ['/auth/login', 'auth'],
    ['/auth/login/', 'login'],
    ['/auth/login/x', 'login'],
    ['/files', undefined],
    ['/files/', 'files'],
    ['/x/auth', undefined],
  ] as const) {
    test(`${path} is covered by ${found ?? 'none'}`, () => assert.equal(prefixes.find(path), found))
  }

  test('of "/" cover everything', () => {
    const all = new PathPrefixes([['/', true]], AS_FASTIFY_COMES)
    for (const path of ['/', '/x', '//']) assert.equal(all.find(path), true)
  })
})

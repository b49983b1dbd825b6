import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RouteOptions } from 'fastify'
import { createTemplateFinder } from '../../src/http/routes/route-finder.js'

const ROUTER = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
}

function route(url: string, options: Partial<RouteOptions> = {}): RouteOptions {
  return { method: 'GET', url, handler: async () => 'ok', ...options }
}

function finder(routes: readonly RouteOptions[], router: Partial<typeof ROUTER> = {}) {
  return createTemplateFinder({ ...ROUTER, ...router }, routes)
}

test('a path has the template of the route that the app would find', () => {
  const find = finder([
    route('/items'),
    route('/items/:id'),
    route('/items/:id/parts/:part', { method: ['GET', 'PUT'] }),
    route('/items/new'),
  ])
  const table: readonly [method: string, path: string, template: string | undefined][] = [
    ['GET', '/items/17', '/items/:id'],
    ['GET', '/items/%2e%2E', '/items/:id'],
    ['GET', '/items/17?page=2', '/items/:id'],
    ['GET', 'http://shop.example/items/17', '/items/:id'],
    ['PUT', '/items/17/parts/a', '/items/:id/parts/:part'],
    // Routes without a parameter are their paths, and a path without a route is by itself.
    ['GET', '/items', undefined],
    ['GET', '/items/new', undefined],
    ['PUT', '/items/17', undefined],
    ['GET', '/wp-login.php', undefined],
    ['GET', `/items/${'x'.repeat(400)}`, '/items/:id'],
  ]
  for (const [method, path, template] of table) assert.equal(find(method, path), template, `${method} ${path}`)
})

test('what no request could be has no template', () => {
  const find = finder([route('/items/:id')])
  for (const path of ['', '*', 'items/1', '/items/%', '/items/%ff', 'http://', '//', '\u0000']) {
    assert.equal(find('GET', path), undefined, JSON.stringify(path))
  }
  for (const method of ['', 'get', '__proto__', 'constructor'])
    assert.equal(find(method, '/items/1'), undefined, method)
})

test('a wildcard is no template, and hides none', () => {
  const find = finder([route('/*'), route('/files/*'), route('*'), route('/items/:id')])
  assert.equal(find('GET', '/files/a'), undefined)
  assert.equal(find('GET', '/anything/at/all'), undefined)
  assert.equal(find('GET', '/items/1'), '/items/:id')
})

test("the template is found by the app's own spelling of paths, whatever constraints its routes have", () => {
  const find = finder(
    [
      route('/items/:id', { constraints: { version: '1.0.0' } }),
      route('/items/:id', { constraints: { version: '2.0.0' } }),
      route('/shops/:shop', { constraints: { secret: 'x' } }),
    ],
    { caseSensitive: false, ignoreTrailingSlash: true },
  )
  assert.equal(find('GET', '/ITEMS/17/'), '/items/:id')
  assert.equal(find('GET', '/shops/1'), '/shops/:shop')
})

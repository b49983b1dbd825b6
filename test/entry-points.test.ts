/** What a host loads with each entry point, before it uses anything of it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../src/ground/package-root.js'

const IMPORT = /^(?:import|export)\s(?!type\s)(?<names>[^'"]*?)from\s'(?<source>[^']+)'/gm

/** Returns the modules, and the packages, that a module imports at once; types are left out. */
function loadedBy(entry: string): { readonly modules: string[]; readonly packages: string[] } {
  const modules = new Set([join(PACKAGE_ROOT, entry)])
  const packages = new Set<string>()
  for (const file of modules) {
    if (file.includes('generated')) continue
    for (const { groups } of readFileSync(file, 'utf8').matchAll(IMPORT)) {
      const { names = '', source = '' } = groups ?? {}
      const isOnlyTypes = /^\{[^}]*\}/.test(names) && names.replace(/[{}]|type \w+(?: as \w+)?|,|\s/g, '') === ''
      if (isOnlyTypes) continue
      if (source.startsWith('.')) modules.add(resolve(dirname(file), source.replace(/\.js$/, '.ts')))
      else if (!source.startsWith('node:')) packages.add(source)
    }
  }
  return {
    modules: [...modules].map((file) => relative(PACKAGE_ROOT, file).replaceAll(sep, '/')),
    packages: [...packages].sort(),
  }
}

function roomsOf(modules: readonly string[]): string[] {
  return [...new Set(modules.map((module) => module.split('/').slice(0, 3).join('/')))].filter((room) =>
    /^src\/staff|^admin/.test(room),
  )
}

test('the root entry loads nothing of the pages, the API or the panel', () => {
  const { modules, packages } = loadedBy('src/index.ts')
  assert.deepEqual(roomsOf(modules), [])
  assert.deepEqual(packages, ['@fastify/error', 'fastify-plugin', 'ipaddr.js'])
})

test('the dashboard and the API load a plugin each, and what they show with their first use', () => {
  const dashboard = loadedBy('src/dashboard.ts')
  const api = loadedBy('src/api.ts')
  assert.ok(!dashboard.modules.includes('src/staff/dashboard/register-dashboard.ts'))
  assert.ok(!dashboard.modules.some((module) => module.startsWith('src/staff/api/')))
  assert.ok(!api.modules.some((module) => module.startsWith('src/staff/dashboard/')))
  assert.ok(!api.modules.includes('src/staff/api/register-routes.ts'))
})

test('the panel loads AdminJS with its first use', () => {
  const { packages } = loadedBy('admin/index.ts')
  assert.ok(!packages.some((name) => name.includes('adminjs')), packages.join(' '))
})

test('the conformance suite of stores loads no app', () => {
  const { modules, packages } = loadedBy('test/conformance/conformance.ts')
  assert.deepEqual(packages, ['@fastify/error'])
  for (const module of modules) assert.match(module, /^(?:test\/conformance|src\/(?:limiter|ground))\//)
})

test('the limiter loads no app, and the stores that it uses with its first use', () => {
  const { modules, packages } = loadedBy('src/limiter.ts')
  assert.deepEqual(packages, ['@fastify/error', 'ipaddr.js'])
  for (const module of modules.slice(1)) assert.match(module, /^src\/(?:limiter|clients|database|generated|ground)\//)
  assert.ok(!modules.some((module) => /stores\/(?:sql|redis)\/|sqlite|postgresql/.test(module)), modules.join(' '))
  assert.ok(modules.length < 75, `${modules.length} modules`)
})

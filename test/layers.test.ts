import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../src/ground/package-root.js'

const SOURCE = join(PACKAGE_ROOT, 'src')
/** From the top down. A file imports from its own room, and from the rooms below; types count. */
const ROOMS =
  'index.ts dashboard.ts api.ts limiter.ts reports.ts staff plugin http operations reports rules log limiter database clients ground'.split(
    ' ',
  )
const IMPORT = /(?:^(?:import|export)\s[^'"]*?from\s|^import\s|\bimport\()\s*'(\.[^']+)'/gms

const names = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
const files = names.filter((name) => name.endsWith('.ts') && !name.split(sep).includes('generated'))
const texts = new Map(files.map((file) => [file, readFileSync(join(SOURCE, file), 'utf8')]))
const imports = new Map(Array.from(texts, ([file, text]) => [file, importsOf(file, text)]))

function importsOf(file: string, text: string): string[] {
  return Array.from(text.matchAll(IMPORT), ([, source = '']) => {
    return relative(SOURCE, resolve(SOURCE, dirname(file), source.replace(/\.js$/, '.ts')))
  }).filter((imported) => texts.has(imported))
}

function floorOf(file: string): number {
  return ROOMS.indexOf(file.split(sep, 1).join())
}

test('every file is in a room, and imports only point down', () => {
  assert.deepEqual(
    files.filter((file) => floorOf(file) === -1),
    [],
  )
  const upward = [...imports].flatMap(([file, imported]) =>
    imported.filter((other) => floorOf(other) < floorOf(file)).map((other) => `${file} → ${other}`),
  )
  assert.deepEqual(upward, [])
})

test('no files import each other in a circle', () => {
  const seen = new Set<string>()
  function follow(file: string, way: readonly string[]): void {
    assert.ok(!way.includes(file), [...way.slice(way.indexOf(file)), file].join(' → '))
    if (seen.has(file)) return
    for (const imported of imports.get(file) ?? []) follow(imported, [...way, file])
    seen.add(file)
  }
  for (const file of files) follow(file, [])
})

test('only the client of hosts and the panel calls Prisma', () => {
  const schema = readFileSync(join(PACKAGE_ROOT, 'prisma/sqlite/schema.prisma'), 'utf8')
  const models = Array.from(schema.matchAll(/^model R(\w+)/gm), ([, name]) => `r${name}`)
  assert.ok(models.includes('rateLimitRule'))
  const model = new RegExp(`\\b(?:${models.join('|')})\\b|\\$(?:query|execute)Raw|\\$transaction\\b`)
  const callers = [...texts].flatMap(([file, text]) => {
    const isFace = dirname(file) === join('plugin', 'client') || file.split(sep, 1).join() === 'database'
    // A docstring may show a host's call.
    const code = text.replace(/\/\*\*.*?\*\//gs, '')
    return !isFace && model.test(code) ? [file] : []
  })
  assert.deepEqual(callers, [])
})

test('nothing below the clock reads the time, and the algorithms know no I/O', () => {
  for (const [file, text] of texts) {
    if (dirname(file) !== 'limiter') continue
    assert.doesNotMatch(text, /Date\.now|performance\.now|new Date\(\)/, file)
    assert.doesNotMatch(text, /from '(?:fastify|node:|pg|better-sqlite3|@prisma)/, file)
  }
})

test('src/ knows neither the panel nor the scripts, and nothing but the panel knows AdminJS', () => {
  for (const [file, text] of texts) {
    assert.doesNotMatch(text, /(?:from|import\()\s*'(?:(?:\.\.\/)+(?:admin|scripts)\/|@?adminjs)/, file)
  }
})

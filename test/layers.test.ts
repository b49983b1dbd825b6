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
/** The rooms without an arrow back up between their folders. The others follow. */
const WITHOUT_ARROWS_UP = 'plugin operations reports log limiter database clients ground'.split(' ')
/** The rooms in which no folder has more loose files than `MAX_LOOSE`. The others follow. */
const WITH_FEW_LOOSE = ['plugin']
const MAX_LOOSE = 12
/** The lines of `src/` without what is generated. Lower this with each step; raise it only with a page in `docs/decisions/`. */
const MAX_LINES = 62_980
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

function assertNoCircle(nodes: Iterable<string>, next: (node: string) => Iterable<string>): void {
  const seen = new Set<string>()
  function follow(node: string, way: readonly string[]): void {
    assert.ok(!way.includes(node), [...way.slice(way.indexOf(node)), node].join(' → '))
    if (seen.has(node)) return
    for (const other of next(node)) follow(other, [...way, node])
    seen.add(node)
  }
  for (const node of nodes) follow(node, [])
}

test('no files import each other in a circle', () => {
  assertNoCircle(files, (file) => imports.get(file) ?? [])
})

/** Returns the folders of a room by their paths, each with the files in it and below it. */
function foldersOf(room: string): Map<string, string[]> {
  const folders = new Map<string, string[]>()
  for (const file of files) {
    for (let folder = dirname(file); folder !== '.'; folder = dirname(folder)) {
      if (folder.split(sep, 1).join() === room) folders.set(folder, [...(folders.get(folder) ?? []), file])
    }
  }
  return folders
}

test('inside a room no arrow runs back up: its folders, and its loose files as one, import each other in no circle', () => {
  for (const room of WITHOUT_ARROWS_UP) {
    for (const [folder, within] of foldersOf(room)) {
      const partOf = (file: string) => join(folder, relative(folder, file).split(sep).slice(0, -1)[0] ?? '*')
      const arrows = new Map<string, Set<string>>()
      for (const file of within) {
        const others = (imports.get(file) ?? []).filter((other) => within.includes(other)).map(partOf)
        const part = partOf(file)
        arrows.set(part, new Set([...(arrows.get(part) ?? []), ...others.filter((other) => other !== part)]))
      }
      assertNoCircle(arrows.keys(), (part) => arrows.get(part) ?? [])
    }
  }
})

test('no folder has more than a dozen loose files', () => {
  const crowded = WITH_FEW_LOOSE.flatMap((room) =>
    [...foldersOf(room)].flatMap(([folder, within]) => {
      const loose = within.filter((file) => dirname(file) === folder).length
      return loose > MAX_LOOSE ? [`${folder}: ${loose}`] : []
    }),
  )
  assert.deepEqual(crowded, [])
})

test('src/ keeps its budget of lines', () => {
  const lines = [...texts.values()].reduce((sum, text) => sum + text.split('\n').length - 1, 0)
  assert.ok(lines <= MAX_LINES, `src/ has ${lines} lines, ${lines - MAX_LINES} more than its budget`)
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

test('src/ knows neither the panel, the scripts nor the tests, and nothing but the panel knows AdminJS', () => {
  for (const [file, text] of texts) {
    assert.doesNotMatch(text, /(?:from|import\()\s*'(?:(?:\.\.\/)+(?:admin|scripts|test)\/|@?adminjs)/, file)
  }
})

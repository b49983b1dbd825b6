import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../src/package-root.js'

const SOURCE = join(PACKAGE_ROOT, 'src')

/** From the top down. A file imports from its own layer's folder and from the layers below. */
const LAYERS = [
  ['index'],
  ['api', 'app', 'dashboard'],
  ['settings', 'sign-in'],
  ['analytics', 'erasure'],
  ['client'],
  ['bans', 'exchange', 'writes'],
  ['history', 'http', 'preview', 'snapshot'],
  ['health', 'internals', 'overrides', 'rollups'],
  ['alerts', 'events', 'metrics', 'rules', 'schedule', 'stores'],
  ['conditions'],
  ['db'],
  ['limiter', 'outage-log', 'patterns', 'privacy'],
  ['settings/setting'],
  ['errors', 'number-text', 'overrides/network', 'package-root', 'readable-url', 'remember', 'time', 'visible'],
]
const IMPORT = /^(?:import|export)\s(?<names>[^'"]*?)from '(?<source>[^']+)'/gms

/** The folder of a file, or the file itself where the list has it. */
function roomOf(file: string): string {
  const path = relative(SOURCE, file).replaceAll('\\', '/').replace(/\.ts$/, '')
  const [room = ''] = path.split('/')
  return LAYERS.flat().includes(path) ? path : room
}

function layerOf(file: string): number {
  const layer = LAYERS.findIndex((rooms) => rooms.includes(roomOf(file)))
  assert.notEqual(layer, -1, `${relative(SOURCE, file)} is in no layer: add its room to the list`)
  return layer
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.includes('generated'))
  .map((name) => join(SOURCE, name))

test('imports only point down', () => {
  const upward: string[] = []
  for (const file of files) {
    for (const { groups } of readFileSync(file, 'utf8').matchAll(IMPORT)) {
      const { names = '', source = '' } = groups ?? {}
      if (!source.startsWith('.') || source.includes('generated')) continue
      const imported = resolve(dirname(file), source.replace(/\.js$/, '.ts'))
      const isType = names.trimStart().startsWith('type ')
      const sameRoom = roomOf(imported) === roomOf(file)
      const down = layerOf(imported) > layerOf(file) || (layerOf(imported) === layerOf(file) && isType)
      if (!sameRoom && !down) upward.push(`${relative(SOURCE, file)} → ${source}`)
    }
  }
  assert.deepEqual(upward, [])
})

test('nothing below the clock reads the time, and the limiter knows no I/O', () => {
  for (const file of files.filter((name) => roomOf(name) === 'limiter')) {
    const text = readFileSync(file, 'utf8')
    assert.doesNotMatch(text, /Date\.now|performance\.now|new Date\(\)/, file)
    assert.doesNotMatch(text, /from '(?:fastify|node:|pg|better-sqlite3|@prisma)/, file)
  }
})

test('src/ knows neither the panel nor the scripts, and nothing but the panel knows AdminJS', () => {
  for (const file of files) {
    assert.doesNotMatch(
      readFileSync(file, 'utf8'),
      /(?:from|import\()\s*'(?:(?:\.\.\/)+(?:admin|scripts)\/|@?adminjs)/,
      file,
    )
  }
})

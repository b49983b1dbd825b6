/**
 * Bundles the built package, before it is packed: a process loads a few files instead of hundreds. What only some
 * servers use (Prisma, the pages, alerts, commands) stays in files of its own, which are loaded on their first use.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, sep } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress } from 'node:zlib'
import { transform } from 'esbuild'
import { type GetModuleInfo, type Plugin, rollup } from 'rollup'
import { PACKAGE_ROOT } from '../src/ground/package-root.js'

const DIST = join(PACKAGE_ROOT, 'dist')
/** The modules that hosts import, that run by themselves, and that are loaded by their path. */
const ENTRIES = [
  'src/index.js',
  'src/dashboard.js',
  'src/api.js',
  'src/limiter.js',
  'src/reports.js',
  'test/conformance/conformance.js',
  'src/database/prisma/generated-client.js',
  'src/database/sqlite-worker.js',
  'src/limiter/stores/sql/sqlite-functions.js',
  'admin/index.js',
  'scripts/ratelimit.js',
]
/** The types of the entry points. */
const TYPES = [
  'src/index',
  'src/dashboard',
  'src/api',
  'src/limiter',
  'src/reports',
  'test/conformance/conformance',
  'admin/index',
].map((name) => `${name}.d.ts`)
const GENERATED = join(DIST, 'src', 'database', 'generated')
/** Other packages, bundled and minified already. They stay as they are, and are imported by their name in package.json. */
const BUNDLED = [join(DIST, 'src', 'generated'), join(GENERATED, 'prisma')]
const isBundled = (path: string) => BUNDLED.includes(dirname(path)) && /\.m?js$/.test(path)
const keepBundled: Plugin = {
  name: 'keep-bundled',
  resolveId(source, importer = '') {
    const path = join(dirname(importer), source)
    return isBundled(path) ? { id: `#dist/${relative(DIST, path).replaceAll(sep, '/')}`, external: true } : null
  },
}
/** Comments are for readers of the source. The syntax is that of the oldest Node.js, in its short forms; names stay. */
const withoutComments: Plugin = {
  name: 'without-comments',
  renderChunk: (code) => transform(code, { format: 'esm', target: 'node20.19', minifySyntax: true }),
}
/** Entry points that need little of the package, and load no more than that. */
const SMALL = ['src/database/sqlite-worker.js', 'scripts/ratelimit.js']
const PUBLISHED = ['src', 'admin', 'test/conformance', 'scripts/commands']

/** Modules may call each other, chunks must not; and a package that is bundled imports names that it does not use. */
const HARMLESS: ReadonlySet<string> = new Set(['CIRCULAR_DEPENDENCY', 'UNUSED_EXTERNAL_IMPORT'])

/**
 * The files of the modules that every app loads, each with the modules that need it: a limiter without an app loads the first,
 * and the second where its counters are not in memory. What a small entry point needs is in none.
 */
const FILES: readonly (readonly [name: string, entries: readonly string[]])[] = [
  ['limiter', ['src/limiter.js']],
  [
    'stores',
    [
      'src/limiter/core/database-parts.js',
      'src/limiter/stores/redis/redis-store.js',
      'src/limiter/stores/sql/database-store.js',
    ],
  ],
  ['app', ['src/index.js']],
]
const fileOf = new Map<string, string>()
const findModulesOfEveryApp: Plugin = {
  name: 'find-modules-of-every-app',
  buildEnd() {
    const small = reachedFrom(SMALL, this.getModuleInfo)
    for (const [name, needing] of FILES) {
      for (const id of reachedFrom(needing, this.getModuleInfo)) {
        if (!small.has(id) && !fileOf.has(id)) fileOf.set(id, name)
      }
    }
  },
}

const bundle = await rollup({
  input: Object.fromEntries(ENTRIES.map((entry) => [entry.replace(/\.js$/, ''), join(DIST, entry)])),
  external: (id) => !id.startsWith('.') && !isAbsolute(id),
  plugins: [keepBundled, findModulesOfEveryApp],
  onLog(_level, { code, message }) {
    if (!HARMLESS.has(code ?? '')) throw new Error(message)
  },
})
const { output } = await bundle.write({
  dir: DIST,
  format: 'esm',
  chunkFileNames: 'chunks/[name]-[hash].js',
  // The modules that every app loads are few files: reading sixty takes longer than all that is in them.
  manualChunks: (id) => fileOf.get(id),
  onlyExplicitManualChunks: true,
  plugins: [withoutComments],
})
const written = new Set(output.map(({ fileName }) => join(DIST, fileName)))

/** The declarations that the types of the entry points need. */
const declared = new Set<string>()

async function declare(path: string): Promise<void> {
  if (declared.has(path)) return
  declared.add(path)
  const source = await readFile(path, 'utf8')
  for (const [, name = ''] of source.matchAll(/(?:from |import |import\()['"](\.[^'"]+)\.js['"]/g)) {
    await declare(join(dirname(path), `${name}.d.ts`))
  }
  // A third of what Prisma generates is comments, the same ones for every model.
  if (path.startsWith(GENERATED)) await writeFile(path, source.replace(/^\s*\/\*[\s\S]*?\*\/\n/gm, ''))
}

for (const path of TYPES) await declare(join(DIST, path))

for (const folder of PUBLISHED) {
  for (const name of await readdir(join(DIST, folder), { recursive: true })) {
    const path = join(DIST, folder, name)
    const isUnused = /\.m?js$/.test(name)
      ? !written.has(path) && !isBundled(path)
      : name.endsWith('.d.ts') && !declared.has(path)
    if (isUnused) await rm(path)
  }
}

// The best quality, which is the default, makes them a tenth shorter.
const compilers = join(GENERATED, 'prisma', 'query-compilers.br')
await writeFile(
  compilers,
  await promisify(brotliCompress)(await promisify(brotliDecompress)(await readFile(compilers))),
)

/** Returns the modules that entry points import, directly or not. */
function reachedFrom(entries: readonly string[], getModuleInfo: GetModuleInfo): ReadonlySet<string> {
  const ids = new Set(entries.map((entry) => join(DIST, entry)))
  for (const id of ids) {
    const module = getModuleInfo(id)
    if (module === null && isAbsolute(id)) throw new Error(`The bundle has no module ${id}`)
    for (const imported of module?.importedIds ?? []) ids.add(imported)
  }
  return ids
}

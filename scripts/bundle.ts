/**
 * Bundles the built package, before it is packed: a process loads a few files instead of hundreds. What only some
 * servers use (Prisma, the pages, alerts, commands) stays in files of its own, which are loaded on their first use.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress } from 'node:zlib'
import { build, type Plugin } from 'esbuild'
import { PACKAGE_ROOT } from '../src/package-root.js'

const DIST = join(PACKAGE_ROOT, 'dist')
/** The modules that hosts import, that run by themselves, and that are loaded by their path. */
const ENTRIES = [
  'src/index.js',
  'src/stores/conformance.js',
  'src/db/generated-client.js',
  'src/db/sqlite-checkpointer.js',
  'src/db/sqlite-worker.js',
  'admin/index.js',
  'scripts/ratelimit.js',
]
/** The types of the entry points. */
const TYPES = ['src/index.d.ts', 'src/stores/conformance.d.ts', 'admin/index.d.ts']
const GENERATED = join(DIST, 'src', 'db', 'generated')
/** Other packages, bundled and minified already. They stay as they are, and are imported by their name in package.json. */
const BUNDLED = [join(DIST, 'src', 'generated'), join(GENERATED, 'prisma')]
const isBundled = (path: string) => BUNDLED.includes(dirname(path)) && /\.m?js$/.test(path)
const keepBundled: Plugin = {
  name: 'keep-bundled',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path, resolveDir }) => {
      const file = join(resolveDir, path)
      return isBundled(file) ? { path: `#dist/${relative(DIST, file)}`, external: true } : undefined
    })
  },
}
const PUBLISHED = ['src', 'admin', 'scripts/commands']

const { metafile } = await build({
  entryPoints: ENTRIES.map((entry) => join(DIST, entry)),
  outdir: DIST,
  outbase: DIST,
  allowOverwrite: true,
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  packages: 'external',
  plugins: [keepBundled],
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  metafile: true,
  absWorkingDir: PACKAGE_ROOT,
  logLevel: 'warning',
})

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

const written = new Set(Object.keys(metafile.outputs).map((path) => join(PACKAGE_ROOT, path)))
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

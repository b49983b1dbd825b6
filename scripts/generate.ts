/**
 * Generates the Prisma clients, as a part of every build, compiles the schemas of settings, and bundles what this
 * package uses of Handlebars, of Prisma's runtime, of its drivers' adapters and of AdminJS's adapter for Prisma. Nothing of Prisma is
 * installed with this package, not even `@prisma/client` (72 MB, of which a server runs a twentieth), and the host's own
 * Prisma may have any version.
 */
import { execFile } from 'node:child_process'
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { build, type Plugin } from 'esbuild'
import pg from 'pg'
import type { TSchemaOptions } from 'typebox'
import { Code } from 'typebox/compile'
import { PACKAGE_ROOT } from '../src/ground/package-root.js'
import * as schemas from '../src/plugin/settings/schemas.js'

const PACKAGES = join(PACKAGE_ROOT, 'node_modules')
const RUNTIME = join(PACKAGES, '@prisma', 'client', 'runtime')
const CLIENTS = join(PACKAGE_ROOT, 'src', 'database', 'generated')
const PRISMA = join(CLIENTS, 'prisma')
const ADMIN = join(PACKAGE_ROOT, 'admin', 'generated')
const GENERATED = join(PACKAGE_ROOT, 'src', 'generated')
const PROVIDERS = ['sqlite', 'postgresql'] as const

/** Makes Prisma's adapter use the driver that this package chooses: two in one process would break file locks. */
const ONE_SQLITE_DRIVER = replace(
  'better-sqlite3',
  `let openFile
   export function useSqliteDriver(open) { openFile = open }
   export default function Database(path, options) { return openFile(path, options) }`,
)

/**
 * Makes Prisma's adapter use the driver that it is given, which is not installed where PostgreSQL is not used, and read
 * values with the parsers that it is given: a host may replace those of the driver.
 */
const GIVEN_POSTGRESQL_DRIVER = replace(
  'pg',
  `let Pool, parserFor
   export function usePostgresqlDriver(driver, getTypeParser) { Pool = driver.Pool; parserFor = getTypeParser }
   // The adapter asks for some when it is loaded.
   const types = { builtins: ${JSON.stringify(pg.types.builtins)}, getTypeParser }
   function getTypeParser(oid, format) {
     return parserFor === undefined ? (value) => parserFor(oid, format)(value) : parserFor(oid, format)
   }
   export default { get Pool() { return Pool }, types }`,
)

/** The declarations of what `compileSchemas` writes. */
const VALIDATORS = `/** Whether a value is accepted, and a description for messages of what is. */
export interface Validator {
  readonly accepts: (value: unknown) => boolean
  readonly allowed: string
}
export declare const VALIDATORS: { readonly [Name in keyof typeof import('../plugin/settings/schemas.js')]: Validator }
export { IsDateTime as isDateTime } from 'typebox/format'
`

/** Has TypeBox write the module that validates by a schema, with the regular expressions that it needs. */
const COMPILED_SCHEMAS: Plugin = {
  name: 'compiled schemas',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^schema:/ }, ({ path }) => ({ path: path.slice('schema:'.length), namespace: 'schema' }))
    // The registry keeps all formats; one is used, without it.
    onResolve({ filter: /_registry\.mjs$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path),
      sideEffects: false,
    }))
    onLoad({ filter: /^/, namespace: 'schema' }, ({ path }) => {
      const schema = Object.entries(schemas).find(([name]) => name === path)?.[1]
      if (schema === undefined) return undefined
      const { Code: code, External: external } = Code(schema)
      const contents = `${code}\nSetExternal({ variables: [${external.variables.map(regularExpression)}] })`
      return { contents, resolveDir: PACKAGE_ROOT }
    })
  },
}

function regularExpression(variable: unknown): string {
  if (variable instanceof RegExp) return String(variable)
  throw new Error(`A schema of settings needs ${String(variable)}, which no text of its module can have`)
}

/** Replaces the client of a host, in which the adapter searches for enums; this package has none. */
const NO_ENUMS = replace('@prisma/client', 'export const Prisma = { dmmf: { datamodel: { enums: [], models: [] } } }')

/** Removes unused names at the beginning of the runtime: they need a URL, which CommonJS lacks, and set a global. */
const NO_BANNER: Plugin = {
  name: 'no banner',
  setup({ onLoad }) {
    onLoad({ filter: /client\.mjs$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8')
      return { contents: source.replace(/^(?:import|const|globalThis).*(?:__banner|__dirname).*\n/gm, '') }
    })
  },
}

/** Replaces a package by a module, whose imports stay imports of the bundle. */
function replace(name: string, contents: string): Plugin {
  return {
    name: `replace ${name}`,
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^/, namespace: 'replaced' }, ({ path }) => ({ path, external: true }))
      onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path: name, namespace: 'replaced' }))
      onLoad({ filter: /^/, namespace: 'replaced' }, () => ({ contents }))
    },
  }
}

/** Writes the modules of one client. They import the bundled runtime. */
async function generateClient(provider: (typeof PROVIDERS)[number]): Promise<void> {
  const folder = join(CLIENTS, provider)
  await rm(folder, { recursive: true, force: true })
  await promisify(execFile)(
    process.execPath,
    [join(PACKAGES, 'prisma', 'build', 'index.js'), 'generate', '--schema', `prisma/${provider}/schema.prisma`],
    {
      cwd: PACKAGE_ROOT,
      // The command would download an engine that it does not use, and check for news. Any program can stand for it.
      env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
    },
  )
  for (const name of await readdir(folder, { recursive: true })) {
    const path = join(folder, name)
    if (/browser\.ts$/i.test(name)) await rm(path)
    else if (name.endsWith('.ts')) await writeFile(path, adapted(await readFile(path, 'utf8'), dirname(path)))
  }
}

const COMPILER_IMPORT =
  /const \{ wasm \} = await import\("[^"]*\.(\w+)\.wasm-base64\.mjs"\)\s*return await decodeBase64AsWasm\(wasm\)/
const COMPILER_READER = /^async function decodeBase64AsWasm[\s\S]*?^\}$/m

/** The inputs of writes of overrides. */
const OVERRIDE_INPUTS =
  /^export type RateLimitOverride(?:Unchecked)?(?:Create|Update)(?:Many|ManyMutation)?Input = \{$/gm
/** The shorthand of an override's expiry, which the checked writes replace. */
const OVERRIDE_SHORTHAND = `
  /** The duration instead of \`expiresAt\`: \`30m\`, \`2h\` or \`7d\`, at most \`366d\`. */
  for?: string`

/**
 * Returns a module that Prisma generated, without its changes to the host's globals, with a compressed compiler, and
 * with the shorthand of overrides.
 */
function adapted(source: string, folder: string): string {
  const runtime = relative(folder, PRISMA).replaceAll(sep, '/')
  return source
    .replace(/^globalThis\['__dirname'\] = .*$/m, '')
    .replace(OVERRIDE_INPUTS, `$&${OVERRIDE_SHORTHAND}`)
    .replace(COMPILER_READER, "import { readQueryCompiler } from '../../../prisma/query-compiler.js'")
    .replace(COMPILER_IMPORT, (_, provider) => `return new WebAssembly.Module(await readQueryCompiler('${provider}'))`)
    .replaceAll('"@prisma/client/runtime/client"', `"${runtime}/client.js"`)
    .replaceAll('"@prisma/client/runtime/', `"${runtime}/`)
}

/** Copies types and replaces the names of packages by those of the bundled ones. */
async function copyTypes(from: string, to: string, names: Readonly<Record<string, string>>): Promise<void> {
  const types = await readFile(from, 'utf8')
  await writeFile(
    to,
    types.replace(/(?<=from ')[^']+(?=')/g, (name) => names[name] ?? name),
  )
}

/** Bundles one module, and returns the packages in it. */
async function bundle(
  contents: string,
  outfile: string,
  external: string[],
  plugins: Plugin[] = [],
): Promise<string[]> {
  const { metafile } = await build({
    stdin: { contents, resolveDir: PACKAGE_ROOT },
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    outfile,
    external,
    plugins,
    minify: true,
    metafile: true,
    absWorkingDir: PACKAGE_ROOT,
    logLevel: 'warning',
  })
  const packages = Object.keys(metafile.inputs).flatMap(
    (path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  )
  return [...new Set(packages)]
}

/** Writes the texts of the licenses beside the code, as they require. */
async function writeLicenses(folder: string, packages: Iterable<string>): Promise<void> {
  const namesByText = new Map<string, string[]>()
  for (const name of [...new Set(packages)].sort()) {
    const file = (await readdir(join(PACKAGES, name))).find((each) => /^licen[cs]e/i.test(each))
    if (file === undefined) throw new Error(`${name} has no license to be shipped with it`)
    const text = (await readFile(join(PACKAGES, name, file), 'utf8')).trim()
    namesByText.set(text, [...(namesByText.get(text) ?? []), name])
  }
  const parts = [...namesByText].map(([text, names]) => `${names.join(', ')}\n\n${text}\n`)
  await writeFile(join(folder, 'LICENSES.txt'), parts.join(`\n${'-'.repeat(80)}\n\n`))
}

async function bundlePrisma(): Promise<void> {
  await rm(PRISMA, { recursive: true, force: true })
  await mkdir(PRISMA, { recursive: true })
  const packages = await Promise.all([
    bundle(`export * from '@prisma/client/runtime/client.mjs'`, join(PRISMA, 'client.js'), [], [NO_BANNER]),
    bundle(
      `export { PrismaPg } from '@prisma/adapter-pg'
       export { usePostgresqlDriver } from 'pg'`,
      join(PRISMA, 'adapter-pg.js'),
      [],
      [GIVEN_POSTGRESQL_DRIVER],
    ),
    bundle(
      `export { PrismaBetterSqlite3 } from '@prisma/adapter-better-sqlite3'
       export { useSqliteDriver } from 'better-sqlite3'`,
      join(PRISMA, 'adapter-better-sqlite3.js'),
      [],
      [ONE_SQLITE_DRIVER],
    ),
  ])
  await writeLicenses(PRISMA, packages.flat())
  const utilities = join(PACKAGES, '@prisma', 'client-runtime-utils', 'dist', 'index.d.mts')
  await copyTypes(join(RUNTIME, 'client.d.mts'), join(PRISMA, 'client.d.ts'), {
    '@prisma/client-runtime-utils': './client-runtime-utils.js',
  })
  await copyFile(utilities, join(PRISMA, 'client-runtime-utils.d.ts'))
  await writeFile(
    join(PRISMA, 'adapter-pg.d.ts'),
    `import type pg from 'pg'
export * from '@prisma/adapter-pg'
export declare function usePostgresqlDriver(driver: { Pool: new (config?: pg.PoolConfig) => pg.Pool }, getTypeParser: typeof pg.types.getTypeParser): void
`,
  )
  await writeFile(
    join(PRISMA, 'adapter-better-sqlite3.d.ts'),
    `export * from '@prisma/adapter-better-sqlite3'
export declare function useSqliteDriver(open: (path: string, options?: object) => object): void
`,
  )
  const [sqlite, postgresql] = await Promise.all([copyCompiler('sqlite'), copyCompiler('postgresql')])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(sqlite.length)
  // The best quality takes twenty times as long, for a tenth less: `scripts/bundle.ts` has the time.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 }
  const compressed = await promisify(brotliCompress)(Buffer.concat([length, sqlite, postgresql]), { params })
  await writeFile(join(PRISMA, 'query-compilers.br'), compressed)
}

/** Copies the module that runs a query compiler, and returns the compiler. */
async function copyCompiler(provider: (typeof PROVIDERS)[number]): Promise<Buffer> {
  const name = `query_compiler_small_bg.${provider}`
  await copyFile(join(RUNTIME, `${name}.mjs`), join(PRISMA, `${name}.mjs`))
  const module = await readFile(join(RUNTIME, `${name}.wasm-base64.mjs`), 'utf8')
  const [, base64] = /"([A-Za-z0-9+/=]{1000,})"/.exec(module) ?? []
  if (base64 === undefined) throw new Error(`${name} has no compiler`)
  return Buffer.from(base64, 'base64')
}

/**
 * Compiles the schemas of settings, with what the compiled code needs of TypeBox: all of it (680 modules) takes a
 * server longer to load than what it checks.
 */
async function compileSchemas(): Promise<string[]> {
  const names = Object.keys(schemas)
  const validators = Object.entries(schemas).map(([name, schema]) => {
    const { description }: TSchemaOptions = { ...schema }
    if (description === undefined) throw new Error(`The schema ${name} of settings has no description`)
    return `${name}: { accepts: ${name}, allowed: ${JSON.stringify(description)} }`
  })
  const contents = [
    ...names.map((name) => `import { Check as ${name} } from 'schema:${name}'`),
    `export const VALIDATORS = { ${validators} }`,
    "export { IsDateTime as isDateTime } from 'typebox/format'",
  ]
  await writeFile(join(GENERATED, 'validators.d.ts'), VALIDATORS)
  return bundle(contents.join('\n'), join(GENERATED, 'validators.js'), [], [COMPILED_SCHEMAS])
}

async function bundleOwn(): Promise<void> {
  await mkdir(GENERATED, { recursive: true })
  await writeLicenses(GENERATED, (await Promise.all([compileSchemas(), bundleTemplateEngine()])).flat())
}

/**
 * Bundles the template engine, of which pages and mails use a hundredth: installed it is 6 MB, in six packages. Without
 * source maps of templates, which it leaves out where their package is missing.
 */
async function bundleTemplateEngine(): Promise<string[]> {
  await writeFile(join(GENERATED, 'handlebars.d.ts'), "export { default as Handlebars } from 'handlebars'\n")
  return bundle(
    `import Handlebars from 'handlebars/dist/cjs/handlebars.js'
     export { Handlebars }`,
    join(GENERATED, 'handlebars.js'),
    ['source-map'],
  )
}

async function bundleAdminAdapter(): Promise<void> {
  await mkdir(ADMIN, { recursive: true })
  const packages = await bundle(
    `export { Resource } from '@adminjs/prisma'`,
    join(ADMIN, 'adminjs-prisma.js'),
    ['adminjs'],
    [NO_ENUMS],
  )
  await writeLicenses(ADMIN, packages)
  const types = join(PACKAGES, '@adminjs', 'prisma', 'lib')
  const names = {
    '@prisma/client': '../../src/database/generated/sqlite/client.js',
    '@prisma/client/runtime/library.js': '../../src/database/generated/prisma/client.js',
  }
  await copyTypes(join(types, 'Resource.d.ts'), join(ADMIN, 'adminjs-prisma.d.ts'), names)
  for (const name of ['Property.d.ts', 'types.d.ts']) await copyTypes(join(types, name), join(ADMIN, name), names)
}

await Promise.all([...PROVIDERS.map(generateClient), bundlePrisma(), bundleOwn(), bundleAdminAdapter()])

/**
 * Works on the OpenAPI documents of the API and of checks: `lint` checks them, and `types` generates the types of the
 * clients in the tests, unless they are those of today's documents.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { openApiDocument } from './document.js'
import { documentHash, generateTypes } from './types.js'

const LINT = ['--no', '--', 'redocly', 'lint', '--extends', 'recommended-strict']
const TYPES = join(PACKAGE_ROOT, 'test', 'generated')

for (const of of ['api', 'check'] as const) {
  const document = await openApiDocument(of)
  if (process.argv[2] === 'types') await writeTypes(join(TYPES, `${of}-types.ts`), document)
  else await lint(of, document)
}

async function writeTypes(path: string, document: object): Promise<void> {
  const firstLine = `// ${documentHash(document)}\n`
  const existing = await readFile(path, 'utf8').catch(() => '')
  if (existing.startsWith(firstLine)) return
  await mkdir(TYPES, { recursive: true })
  await writeFile(path, firstLine + (await generateTypes(document)))
}

async function lint(name: string, document: object): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-openapi-'))
  try {
    const file = join(folder, `${name}.json`)
    await writeFile(file, JSON.stringify(document))
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    execFileSync('npx', [...LINT, file], { cwd: PACKAGE_ROOT, env, stdio: 'inherit' })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

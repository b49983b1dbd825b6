/**
 * Works on the OpenAPI document of the API: `lint` checks it, and `types` generates the types of the client in the tests.
 * The generator needs an older TypeScript than this package, so that npx runs it in a folder of its own.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { documentHash, openApiDocument } from './document.js'

const TYPES = join(PACKAGE_ROOT, 'test', 'support', 'api-types.ts')
const LINT = ['redocly', 'lint', '--extends', 'recommended-strict']
const GENERATE = ['--yes', '--package', 'typescript@5.9', '--package', 'openapi-typescript@7.13', 'openapi-typescript']

const folder = await mkdtemp(join(tmpdir(), 'ratelimit-openapi-'))
try {
  const document = await openApiDocument()
  const file = join(folder, 'openapi.json')
  await writeFile(file, JSON.stringify(document))
  if (process.argv[2] === 'types') {
    npx([...GENERATE, file, '--output', TYPES], folder)
    await writeFile(TYPES, `// ${documentHash(document)}\n${await readFile(TYPES, 'utf8')}`)
  } else {
    npx(['--no', '--', ...LINT, file], PACKAGE_ROOT)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}

function npx(args: readonly string[], cwd: string): void {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  execFileSync('npx', args, { cwd, env, stdio: 'inherit' })
}

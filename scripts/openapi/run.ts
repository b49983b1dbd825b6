/**
 * Works on the OpenAPI documents of the API and of checks: `lint` checks them, and `types` generates the types of the
 * clients in the tests.
 * The generator needs an older TypeScript than this package, so that npx runs it in a folder of its own.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { documentHash, openApiDocument } from './document.js'

const LINT = ['redocly', 'lint', '--extends', 'recommended-strict']
const GENERATE = ['--yes', '--package', 'typescript@5.9', '--package', 'openapi-typescript@7.13', 'openapi-typescript']

const folder = await mkdtemp(join(tmpdir(), 'ratelimit-openapi-'))
try {
  for (const of of ['api', 'check'] as const) {
    const document = await openApiDocument(of)
    const file = join(folder, `${of}.json`)
    await writeFile(file, JSON.stringify(document))
    if (process.argv[2] === 'types') {
      const types = join(PACKAGE_ROOT, 'test', 'support', `${of}-types.ts`)
      npx([...GENERATE, file, '--output', types], folder)
      await writeFile(types, `// ${documentHash(document)}\n${await readFile(types, 'utf8')}`)
    } else {
      npx(['--no', '--', ...LINT, file], PACKAGE_ROOT)
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}

function npx(args: readonly string[], cwd: string): void {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  execFileSync('npx', args, { cwd, env, stdio: 'inherit' })
}

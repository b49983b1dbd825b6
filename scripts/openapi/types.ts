import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

/** Returns a hash of what types are generated from. */
export function documentHash(document: object): string {
  const { paths, components }: { paths?: unknown; components?: unknown } = document
  return createHash('sha256').update(JSON.stringify({ paths, components })).digest('hex')
}

/** Returns the source of the types of a client. */
export async function generateTypes(document: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-openapi-'))
  try {
    const outfile = join(folder, 'generator.cjs')
    // The generator needs the compiler's JavaScript, which the TypeScript of this package no longer has.
    await build({
      stdin: { contents: "export { astToString, default } from 'openapi-typescript'", resolveDir: PACKAGE_ROOT },
      alias: { typescript: 'typescript-5' },
      bundle: true,
      platform: 'node',
      outfile,
    })
    const generator: typeof import('openapi-typescript') = createRequire(import.meta.url)(outfile)
    return generator.astToString(await generator.default(JSON.stringify(document)))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

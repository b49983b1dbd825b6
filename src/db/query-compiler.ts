import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliDecompress } from 'node:zlib'
import { isSource, packagePath } from '../package-root.js'

/**
 * Returns Prisma's query compiler for a database, as WebAssembly. `scripts/generate.ts` compresses it, since it would be
 * half of the package.
 */
export async function readQueryCompiler(provider: string): Promise<Uint8Array> {
  const folder = ['src', 'db', 'generated', 'prisma']
  const path = packagePath(...(isSource ? folder : ['dist', ...folder]), `query-compiler.${provider}.wasm.br`)
  return promisify(brotliDecompress)(await readFile(path))
}

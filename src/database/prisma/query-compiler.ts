import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliDecompress } from 'node:zlib'
import { isSource, packagePath } from '../../ground/package-root.js'

/**
 * Returns Prisma's query compiler for a database, as WebAssembly.
 *
 * `scripts/generate.ts` compresses both into one file, which is two thirds as long as two: a number of 32 bits says how
 * long SQLite's is, which comes first.
 */
export async function readQueryCompiler(provider: string): Promise<Uint8Array> {
  const folder = ['src', 'database', 'generated', 'prisma']
  const path = packagePath(...(isSource ? folder : ['dist', ...folder]), 'query-compilers.br')
  const compilers = await promisify(brotliDecompress)(await readFile(path))
  const middle = 4 + compilers.readUInt32LE()
  return provider === 'sqlite' ? compilers.subarray(4, middle) : compilers.subarray(middle)
}

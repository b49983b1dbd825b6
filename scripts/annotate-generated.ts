/**
 * Part of `npm run generate`: names the types of three constants in the clients that Prisma generated. TypeScript
 * cannot write declarations for them otherwise (TS4094: they are instances of anonymous classes with private fields).
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../src/package-root.js'

const GENERATED = join(PACKAGE_ROOT, 'src', 'db', 'generated')
const UNNAMED_TYPE = /^export const (DbNull|JsonNull|AnyNull) = (runtime\.objectEnumValues\.instances\.\1)$/gm

for (const name of await readdir(GENERATED, { recursive: true })) {
  if (!/prismaNamespace(?:Browser)?\.ts$/.test(name)) continue
  const path = join(GENERATED, name)
  const source = await readFile(path, 'utf8')
  await writeFile(path, source.replace(UNNAMED_TYPE, 'export const $1: typeof $2 = $2'))
}

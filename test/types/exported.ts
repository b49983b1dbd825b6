/**
 * Proves that every type of this package which the declarations of its entry points name can be imported from one of
 * them, and that every type which can be imported is named by one of them. It reads the built package: `npm run
 * test:types` builds it first.
 */
import { join } from 'node:path'
import { isIdentifier, type Node, SyntaxKind } from 'typescript/unstable/ast'
import { API, type Symbol as Declared, SymbolFlags } from 'typescript/unstable/sync'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

const DIST = join(PACKAGE_ROOT, 'dist/')
/** The models of Prisma, which hosts reach through the client. */
const GENERATED = join(DIST, 'src/database/generated/')
const ENTRIES = [
  'src/index',
  'src/dashboard',
  'src/api',
  'src/limiter',
  'src/reports',
  'admin/index',
  'test/conformance/conformance',
].map((name) => join(DIST, `${name}.d.ts`))
/** Types that only code of hosts names: the error which their error handlers receive. */
const FOR_HOSTS = ['RefusalError']
const NAMING = [SyntaxKind.TypeReference, SyntaxKind.ExpressionWithTypeArguments, SyntaxKind.ImportType]

const api = new API({ cwd: PACKAGE_ROOT })
const project = api.updateSnapshot({ openFiles: ENTRIES }).getDefaultProjectForFile(ENTRIES[0] ?? '')
if (project === undefined) throw new Error(`TypeScript reads no ${ENTRIES[0]}`)
const { checker, program } = project

function resolved(symbol: Declared): Declared {
  return symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

const exported = new Map<number, Declared>()
for (const entry of ENTRIES) {
  const file = program.getSourceFile(entry)
  const module = file && checker.getSymbolAtLocation(file)
  if (module === undefined) throw new Error(`TypeScript finds no module in ${entry}`)
  for (const symbol of checker.getExportsOfModule(module)) exported.set(resolved(symbol).id, resolved(symbol))
}

/** Fastify's own types have declarations here too, which augment them. */
function isOurs({ declarations }: Declared): boolean {
  return declarations.every(({ path }) => path.startsWith(DIST) && !path.startsWith(GENERATED))
}

const leaks = new Set<string>()
const named = new Set<number>()
function visit(node: Node, owner: string, ownerId?: number): void {
  const symbol = isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined
  if (symbol !== undefined) {
    const target = resolved(symbol)
    const isNamed =
      (node.parent.kind === SyntaxKind.TypeQuery && target.flags & SymbolFlags.Function) ||
      (NAMING.includes(node.parent.kind) &&
        target.flags & SymbolFlags.Type &&
        !(target.flags & SymbolFlags.TypeParameter))
    if (isNamed && target.id !== ownerId) named.add(target.id)
    if (isNamed && isOurs(target) && !exported.has(target.id)) leaks.add(`${owner} names ${target.name}`)
  }
  node.forEachChild((child) => visit(child, owner, ownerId))
}
for (const symbol of exported.values()) {
  for (const declaration of symbol.declarations) {
    const node = declaration.resolve(project)
    if (node && declaration.path.startsWith(DIST)) visit(node, symbol.name, symbol.id)
  }
}
/** What the package adds to Fastify's own types. */
const plugin = program.getSourceFile(join(DIST, 'src/plugin/plugin.d.ts'))
plugin?.forEachChild((child) => {
  if (child.kind === SyntaxKind.ModuleDeclaration) visit(child, 'Fastify')
})
api.close()

const unused = [...exported.values()].filter(
  ({ id, name, flags }) =>
    flags & (SymbolFlags.Interface | SymbolFlags.TypeAlias) &&
    !(flags & SymbolFlags.Value) &&
    !named.has(id) &&
    !FOR_HOSTS.includes(name),
)
for (const { name } of unused) console.error(`${name} is exported, and no exported declaration names it`)
for (const leak of leaks) console.error(`${leak}, which no entry point exports`)
console.log(
  `${exported.size} exports, ${leaks.size} types that are not exported, ${unused.length} types that nothing names`,
)
process.exitCode = leaks.size + unused.length === 0 ? 0 : 1

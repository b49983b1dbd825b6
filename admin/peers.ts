/** The optional peers of the panel: nothing else of this package loads them. */
import { createRequire, register } from 'node:module'
import { unloadablePeer } from '../src/errors.js'

const PEERS = ['adminjs', '@adminjs/fastify', '@adminjs/prisma'] as const

/**
 * Makes the peers loadable.
 *
 * @throws InvalidSettingError naming the one that is not installed, or that fails to import
 */
export async function preparePeers(): Promise<void> {
  const { resolve } = createRequire(import.meta.url)
  standInForPrismaClient(resolve)
  for (const peer of PEERS) {
    await import(peer).catch((error: unknown) => {
      throw unloadablePeer({ user: 'adminPlugin', name: peer, install: PEERS.join(' ') }, error)
    })
  }
}

let isStandingIn = false

/**
 * `@adminjs/prisma` imports the client that a host generated, though it only looks into it for enums, of which this
 * package has none. In a host that does not use Prisma there is no such client, and the import would fail.
 */
function standInForPrismaClient(resolve: NodeJS.Require['resolve']): void {
  if (isStandingIn || isGenerated(resolve)) return
  isStandingIn = true
  const standIn = 'export const Prisma = { dmmf: { datamodel: { enums: [], models: [] } } }'
  const hooks = `
    export async function resolve(specifier, context, next) {
      if (specifier !== '@prisma/client' || !/[/]@adminjs[/]prisma[/]/.test(context.parentURL ?? '')) {
        return next(specifier, context)
      }
      return { url: ${JSON.stringify(moduleUrl(standIn))}, shortCircuit: true }
    }
  `
  register(moduleUrl(hooks))
}

function isGenerated(resolve: NodeJS.Require['resolve']): boolean {
  try {
    // The one that the adapter finds, which need not be this package's.
    const client = createRequire(resolve('@adminjs/prisma')).resolve('@prisma/client')
    createRequire(client).resolve('.prisma/client/default')
    return true
  } catch {
    return false
  }
}

function moduleUrl(source: string): string {
  return `data:text/javascript,${encodeURIComponent(source)}`
}

/** The optional peers of the panel: nothing else of this package loads them. */
import { unloadablePeer } from '../src/errors.js'

const PEERS = ['adminjs', '@adminjs/fastify'] as const

/**
 * Makes sure that the peers can be loaded.
 *
 * @throws InvalidSettingError naming the one that is not installed, or that fails to import
 */
export async function preparePeers(): Promise<void> {
  for (const peer of PEERS) {
    await import(peer).catch((error: unknown) => {
      throw unloadablePeer({ user: 'adminPlugin', name: peer, install: PEERS.join(' ') }, error)
    })
  }
}

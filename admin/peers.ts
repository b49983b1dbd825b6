/** The optional peers of the panel, which no other part of this package loads. */
import { unloadablePeer } from '../src/errors.js'

const PEERS = ['adminjs', '@adminjs/fastify'] as const

/**
 * Loads the peers.
 *
 * @throws InvalidSettingError which names the peer that is not installed, or fails to import
 */
export async function preparePeers(): Promise<void> {
  for (const peer of PEERS) {
    await import(peer).catch((error: unknown) => {
      throw unloadablePeer({ user: 'adminPlugin', name: peer, install: PEERS.join(' ') }, error)
    })
  }
}

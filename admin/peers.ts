/** The optional peers of the panel: nothing else of this package loads them. */
import { InvalidSettingError, messageOf } from '../src/errors.js'

const PEERS = ['adminjs', '@adminjs/fastify'] as const

/**
 * Makes sure that the peers can be loaded.
 *
 * @throws InvalidSettingError naming the one that is not installed
 */
export async function preparePeers(): Promise<void> {
  for (const peer of PEERS) {
    await import(peer).catch((error: unknown) => {
      throw new InvalidSettingError(
        `adminPlugin needs the package ${peer}: run "npm install ${PEERS.join(' ')}" (${messageOf(error)})`,
        { cause: error },
      )
    })
  }
}

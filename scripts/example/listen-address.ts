import { errorCode } from '../../src/ground/errors.js'

export interface ListenAddress {
  readonly port: number
  readonly host: string
  /** The setting of the port; `PORT` unless given. */
  readonly setting?: string
}

/**
 * Reads `PORT` (3000; 0 is any free one) and `HOST` (127.0.0.1: this machine only).
 *
 * @throws Error for an invalid port
 */
export function listenAddress({ PORT = '3000', HOST = '127.0.0.1' }: NodeJS.ProcessEnv): ListenAddress {
  const port = /^\d{1,5}$/.test(PORT) ? Number(PORT) : Number.NaN
  if (!(port <= 65_535)) throw new Error(`PORT is ${JSON.stringify(PORT)}: give a number, 0 to 65535`)
  return { port, host: HOST }
}

/** Returns an error that names the remedy for an address that cannot be listened on. */
export function explainListenError(error: unknown, { port, host, setting = 'PORT' }: ListenAddress): unknown {
  const code = errorCode(error)
  if (code === 'EADDRINUSE')
    return new Error(`Port ${port} of ${host} is in use: stop the other server, or set ${setting}`)
  if (code === 'EACCES') return new Error(`Port ${port} is not open to this user: set ${setting} to 1024 or more`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new Error(`HOST is ${host}, which is not an address of this machine: give 127.0.0.1, or 0.0.0.0 for all`)
  }
  return error
}

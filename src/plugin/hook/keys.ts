/** The clients by which requests are counted: their users, and the clients of limits. */
import type { ClientKind } from '../../clients/client-kind.js'
import { createHeaderHash } from '../../clients/limit-client.js'
import type { ToClient } from '../../http/checked-request.js'
import { createFunctionClient, createKindClient, type KeyFunction, type KeyOptions } from '../../http/kind-client.js'
import { createLateUserWarning, createRequestUser } from '../../http/request-user.js'
import type { HookComponents } from './hook-components.js'
import { createKeyWarnings } from './key-warnings.js'

export type Keys = ReturnType<typeof createKeys>

export function createKeys({ app, settings, counters }: HookComponents) {
  const { log } = app
  const { hashSecret, privacy, user } = settings
  const options: KeyOptions = {
    log,
    hashHeader: hashSecret === undefined ? undefined : createHeaderHash(hashSecret),
    privacy,
    users: createLateUserWarning(user, log),
  }
  return {
    options,
    warnings: createKeyWarnings(app, settings),
    /** Finds the user of a request, and notes it. */
    findUser: createRequestUser(user, log),
    /** Creates the function that finds the client of a limit in code. */
    toClient(key: ClientKind | KeyFunction, setting: string): ToClient {
      if (typeof key === 'function') return createFunctionClient(key, setting, options)
      counters.addKind(key)
      return createKindClient(key, options)
    },
  }
}

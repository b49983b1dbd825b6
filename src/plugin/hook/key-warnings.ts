/** Warns, once each, of kinds of keys and conditions that lack what makes them useful. */
import type { FastifyInstance } from 'fastify'
import { type ClientKind, countsBy, countsByUser } from '../../clients/client-kind.js'
import type { Settings } from '../settings/resolve.js'

export interface KeyWarnings {
  /** Warns where limits by user have no way to find the user. */
  warnOfUsers(): void
  /** Warns where conditions on the user have no way to find the user. */
  warnOfConditions(): void
  /** Warns of what requests are counted by. */
  noteKind(client: ClientKind): void
}

export function createKeyWarnings(app: FastifyInstance, settings: Settings): KeyWarnings {
  const warnOfUsers = warnWithoutUsers(app, settings, 'Rate limits by user count by IP address')
  let warnsOfValues = settings.middleware.ceiling === undefined

  function warnOfValues(): void {
    if (!warnsOfValues) return
    warnsOfValues = false
    app.log.warn(
      'Rate limits by header or cookie do not hold for clients that make up values: every value has a counter of its own. Set middleware.ceiling, such as 600/m, to what one address may request in all',
    )
  }

  return {
    warnOfUsers,
    warnOfConditions: warnWithoutUsers(app, settings, 'Conditions of rate limit rules on user see no user'),
    noteKind(client) {
      if (countsByUser(client)) warnOfUsers()
      if (countsBy(client, 'header') || countsBy(client, 'cookie')) warnOfValues()
    },
  }
}

function warnWithoutUsers(app: FastifyInstance, { user }: Settings, consequence: string): () => void {
  let isKnown = user !== undefined
  return function warnOfUsers() {
    if (isKnown) return
    isKnown = true
    if (app.hasRequestDecorator('user')) return
    app.log.warn(
      `${consequence}: no request has a user. Give the option "user", or decorate requests with "user" before this plugin's hook runs`,
    )
  }
}

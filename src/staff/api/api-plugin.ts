import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { InvalidSettingError } from '../../ground/errors.js'
import { validatePluginOptions } from '../../ground/unknown-option.js'
import { pluginParts } from '../../plugin/parts.js'
import { hostStaff, type IsStaff } from '../shell/staff-guard.js'

export interface ApiOptions {
  /** Whether the tokens of `ratelimit token create` open it: `true` unless given. */
  readonly tokens?: boolean | undefined
  /**
   * Returns the role of a request without a token, for hosts with an authorization of their own: a role,
   * `{ actor, role }`, or null. A throw is a refusal. It runs in an `onRequest` hook, after those that the host
   * registered before, and once more when the body of the request has arrived.
   */
  readonly authorize?: IsStaff | undefined
}

/**
 * Registers the API below its prefix: JSON over HTTP for pipelines and tools, described by `openapi.json`. It needs the
 * package @fastify/swagger.
 *
 * @throws InvalidSettingError for an invalid or unknown option, without a prefix, or without that package
 */
export const apiPlugin: FastifyPluginAsync<ApiOptions> = fp(registerWithApi, {
  name: 'fastify-smart-ratelimit/api',
  fastify: '5.x',
  dependencies: ['fastify-smart-ratelimit'],
  encapsulate: true,
})

async function registerWithApi(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const { tokens: takesTokens = true, authorize } = options
  validateApiOptions(options, app.prefix)
  const parts = pluginParts(app)
  if (!takesTokens && authorize === undefined) {
    app.log.warn('apiPlugin accepts no tokens and has no "authorize": it refuses every request')
  }
  // The validator and the reports are loaded only by apps with an API.
  const [{ registerApi }, { Tokens }] = await Promise.all([import('./register-routes.js'), import('./token-table.js')])
  const tokens = takesTokens ? new Tokens(parts.database) : undefined
  if (tokens !== undefined) {
    parts.mounts.apis.push(app.prefix)
    parts.components.open('tokens', tokens)
  }
  await registerApi(app, parts, {
    tokens,
    authorize: authorize && hostStaff(authorize, parts.clock, 'apiPlugin', 'authorize'),
  })
}

function validateApiOptions(options: ApiOptions, prefix: string): void {
  validatePluginOptions('apiPlugin', options, ['tokens', 'authorize', 'prefix'])
  const { tokens, authorize } = options
  if (tokens !== undefined && typeof tokens !== 'boolean') {
    throw new InvalidSettingError(`Option "tokens" of apiPlugin is ${String(tokens)}: give true or false`)
  }
  if (authorize !== undefined && typeof authorize !== 'function') {
    throw new InvalidSettingError(
      'Option "authorize" is not a function: give one that takes the request and returns a role or null',
    )
  }
  if (prefix === '') {
    throw new InvalidSettingError('apiPlugin has no prefix: register it with one, such as { prefix: "/ratelimit/api" }')
  }
}

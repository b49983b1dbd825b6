import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { InvalidSettingError } from '../../ground/errors.js'
import { validatePluginOptions } from '../../ground/unknown-option.js'
import { pluginParts } from '../../plugin/parts.js'
import type { AuthorizeCheck } from './check-guard.js'

export interface CheckPluginOptions {
  /** Whether tokens of the role `checker` open it, as `ratelimit token create --role checker` makes them: `true` unless given. */
  readonly tokens?: boolean | undefined
  /**
   * Returns `'checker'` for requests that may check without a token, such as those of proxies in a network of their own;
   * any other answer is a no, and so is a throw. Whom it lets in says whose address a request has.
   */
  readonly authorize?: AuthorizeCheck | undefined
}

/**
 * Registers checks over HTTP below its prefix, for programs in any language and for proxies: `POST {prefix}` takes a
 * request, or up to 100, and answers what `consume()` answers; `{prefix}/forward` answers what proxies ask, 204 or the
 * refusal. No rule limits these addresses.
 *
 * @throws InvalidSettingError for an invalid or unknown option, without a prefix, and where the limit without a rule counts
 * what ends elsewhere
 */
export const checkPlugin: FastifyPluginAsync<CheckPluginOptions> = fp(registerWithChecks, {
  name: 'fastify-smart-ratelimit/check',
  fastify: '5.x',
  dependencies: ['fastify-smart-ratelimit'],
  encapsulate: true,
})

async function registerWithChecks(app: FastifyInstance, options: CheckPluginOptions): Promise<void> {
  const { tokens: takesTokens = true, authorize } = options
  validateCheckOptions(options, app.prefix)
  const parts = pluginParts(app)
  if (!takesTokens && authorize === undefined) {
    app.log.warn('checkPlugin accepts no tokens and has no "authorize": it refuses every request')
  }
  // Loaded only by apps with checks.
  const [{ registerChecks }, { Tokens }] = await Promise.all([
    import('./register-checks.js'),
    import('../api/token-table.js'),
  ])
  const tokens = takesTokens ? new Tokens(parts.database) : undefined
  if (tokens !== undefined) {
    parts.mounts.apis.push(app.prefix)
    parts.components.open('tokens of checks', tokens)
  }
  await registerChecks(app, parts, { tokens, authorize })
}

function validateCheckOptions(options: CheckPluginOptions, prefix: string): void {
  validatePluginOptions('checkPlugin', options, ['tokens', 'authorize', 'prefix'])
  const { tokens, authorize } = options
  if (tokens !== undefined && typeof tokens !== 'boolean') {
    throw new InvalidSettingError(`Option "tokens" of checkPlugin is ${String(tokens)}: give true or false`)
  }
  if (authorize !== undefined && typeof authorize !== 'function') {
    throw new InvalidSettingError(
      'Option "authorize" of checkPlugin is not a function: give one that takes the request and returns "checker" or null',
    )
  }
  if (prefix === '') {
    throw new InvalidSettingError('checkPlugin has no prefix: register it with one, such as { prefix: "/check" }')
  }
}

/** `fastify-smart-ratelimit/api`: the management API, and checks over HTTP. */
export { type ApiOptions, apiPlugin } from './staff/api/api-plugin.js'
export type { AuthorizeCheck, CheckerAnswer } from './staff/check/check-guard.js'
export { type CheckPluginOptions, checkPlugin } from './staff/check/check-plugin.js'

/** `fastify-smart-ratelimit/api`: the management API. */
export { type ApiOptions, apiPlugin } from './staff/api/api-plugin.js'

const RATE = "middleware: { defaultRate: '100/m' }"

/** What to give instead of options of `@fastify/rate-limit`. */
export const FOREIGN_OPTIONS: ReadonlyMap<string, string> = new Map([
  ['max', RATE],
  ['timeWindow', RATE],
  ['global', "middleware: { skipPaths: ['/'] }"],
  ['keyGenerator', "middleware: { key: 'user' }, or a function of the request"],
  ['allowList', "middleware: { allowList: ['192.0.2.0/24'] } for addresses, or skip: (request) => … for others"],
  ['skipOnError', "onStoreError: 'allow'"],
  ['errorResponseBuilder', 'an error handler of the app, for RateLimitExceededError'],
  ['nameSpace', "namespace: 'app'"],
  ['groupId', "config: { smartRateLimit: { rate: '3/m', name: 'otp' } } on each route of the group"],
])

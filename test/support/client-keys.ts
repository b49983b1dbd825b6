import { cookieKey, customKey, headerKey, routeKey, userKey } from '../../src/clients/client-key.js'

/** What makes the keys of clients that one kind identifies, by the beginning of their spelling. */
export const KEYS = {
  'user:': userKey,
  'header:x-a:': (value: string) => headerKey('x-a', value),
  'cookie:sid:': (value: string) => cookieKey('sid', value),
  'route:': routeKey,
  'key:': customKey,
} as const

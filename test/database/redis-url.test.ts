import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRedisUrl } from '../../src/database/redis-client.js'

const ADDRESSES: readonly (readonly [text: string, urls: readonly string[], isCluster: boolean])[] = [
  ['redis://localhost', ['redis://localhost'], false],
  ['rediss://me:s%2Cecret@[::1]:6380/2', ['rediss://me:s%2Cecret@[::1]:6380/2'], false],
  // A comma in a password parts nothing.
  ['redis://:a,b@host', ['redis://:a,b@host'], false],
  ['redis://a:1?cluster=true', ['redis://a:1?cluster=true'], true],
  ['redis://a:1?cluster=false', ['redis://a:1?cluster=false'], false],
  ['redis://a:1,redis://b:2, rediss://c:3', ['redis://a:1', 'redis://b:2', 'rediss://c:3'], true],
]
for (const [text, urls, isCluster] of ADDRESSES) {
  test(`${text} is ${isCluster ? 'a cluster' : 'one server'}`, () => {
    assert.deepEqual(parseRedisUrl(text), { urls, isCluster })
  })
}

for (const text of [
  '',
  'host:6379',
  'redis:host',
  'redis:///0',
  'redis://a:1,b:2',
  'redis://a,redis://b:port',
  'unix:/tmp/redis',
  'redis://:p@geheim#x@host',
  'redis://:p@geheim/x@host',
  'redis://geheim:12?x@host',
  'redis://a:1,redis://:p@geheim/x@host',
  'host=redis password=geheim',
]) {
  test(`${JSON.stringify(text)} is refused`, () => {
    assert.throws(
      () => parseRedisUrl(text, 'RATELIMIT_REDIS_URL'),
      ({ message }: Error) =>
        /"RATELIMIT_REDIS_URL".*redis:\/\/user:password@host:6379/.test(message) && !message.includes('geheim'),
    )
  })
}

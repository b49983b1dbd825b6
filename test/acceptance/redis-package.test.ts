/** ioredis is an optional peer: it is loaded by whoever needs it, and what it opens lets the process end. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { atEnd } from '../support/at-end.js'
import { LOADER, moduleUrl } from '../support/modules.js'
import { REDIS_URL, redisMissing } from '../support/redis.js'

const run = promisify(execFile)
const TIMEOUT_MS = 20_000

/** Makes ioredis look as if it were not installed. */
const WITHOUT_IOREDIS = `data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module'
  register('data:text/javascript,' + encodeURIComponent(\`
    export async function resolve(specifier, context, next) {
      if (specifier !== 'ioredis') return next(specifier, context)
      throw Object.assign(new Error("Cannot find package 'ioredis'"), { code: 'ERR_MODULE_NOT_FOUND' })
    }
  \`))
`)}`

/** Runs an app with these settings, which answers one request and closes, in a process and a folder of its own. */
async function runApp(t: TestContext, settings: object, imports: readonly string[] = []) {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-redis-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  const program = `
    import Fastify from ${JSON.stringify(import.meta.resolve('fastify'))}
    import { rateLimitPlugin } from ${JSON.stringify(moduleUrl('src/index'))}
    const app = Fastify()
    try {
      await app.register(rateLimitPlugin, ${JSON.stringify(settings)})
      const { headers } = await app.inject('/')
      console.log('remaining', headers['x-ratelimit-remaining'])
    } catch (error) {
      console.log(error.code, error.message)
    }
    await app.close()
  `
  const args = [...LOADER, ...imports.flatMap((each) => ['--import', each])]
  const { stdout } = await run(process.execPath, [...args, '--input-type=module', '--eval', program], {
    cwd: folder,
    timeout: TIMEOUT_MS,
  })
  return { stdout, files: await readdir(folder) }
}

test('without ioredis everything else works, and a Redis URL is refused at start with the remedy', async (t) => {
  const memory = await runApp(t, { middleware: { backend: 'memory' } }, [WITHOUT_IOREDIS])
  const redis = await runApp(t, { redis: REDIS_URL, middleware: { backend: 'redis' } }, [WITHOUT_IOREDIS])

  assert.match(memory.stdout, /remaining 99/)
  assert.match(redis.stdout, /FST_RATE_LIMIT_INVALID_SETTING Setting "redis".*ioredis.*npm install ioredis/)
})

test('an app with its counters in Redis leaves no file behind, and its process ends when it is closed', {
  skip: redisMissing,
}, async (t) => {
  const namespace = `test_${process.pid}_${Date.now()}`
  const rateLimit = { defaultRate: '100/s', backend: 'redis' }
  const { stdout, files } = await runApp(t, { redis: REDIS_URL, namespace, middleware: rateLimit })

  assert.match(stdout, /remaining 99/)
  assert.deepEqual(files, [])
})

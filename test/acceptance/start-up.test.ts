/** An app loads what it uses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { runApps, runProgram } from '../support/optional-peers.js'

test(
  'with its counters in memory an app loads no template engine, no mailer, no client of Redis, no schedule and no sign-in',
  long(),
  async (t) => {
    const unused = [
      '../../generated/handlebars.js',
      'nodemailer',
      'ioredis',
      'typebox',
      'typebox/value',
      '@fastify/swagger',
      '@marcbachmann/cel-js',
      'croner',
      '@fastify/cookie',
    ]
    const { stdout } = await runApps(t, [{ middleware: { backend: 'memory' } }], ...unused)

    assert.match(stdout, /remaining 99/)
  },
)

test('the language of conditions is loaded by the first rule that has one', long(), async (t) => {
  const program = `
    import { createRequire } from 'node:module'
    import Fastify from ${JSON.stringify(import.meta.resolve('fastify'))}
    import { rateLimitPlugin } from ${JSON.stringify(moduleUrl('src/index'))}
    const { cache } = createRequire(${JSON.stringify(import.meta.url)})
    const isLoaded = () => Object.keys(cache).some((file) => file.includes('cel-js'))
    const app = Fastify()
    await app.register(rateLimitPlugin, { useDynamicRules: true, database: 'file:./rules.db' })
    await app.ready()
    const { rateLimitRule } = app.smartRateLimit.client
    const data = { name: 'all', pathPattern: '^/', rate: '7/m' }
    await rateLimitRule.create({ data })
    console.log('without', isLoaded(), (await app.inject('/')).headers['x-ratelimit-limit'])
    await rateLimitRule.update({ where: { name: 'all' }, data: { condition: "request.path == '/'" } })
    console.log('with', isLoaded(), (await app.inject('/')).headers['x-ratelimit-limit'])
    await app.close()
  `
  const { stdout } = await runProgram(t, program)

  assert.match(stdout, /without false 7\nwith true 7/)
})

test('the help of the command line loads no package that only commands need', async (t) => {
  const program = `
    const { ratelimit } = await import(${JSON.stringify(moduleUrl('scripts/commands/run'))})
    const { stdout, stderr, env } = process
    process.exitCode = await ratelimit(['--help'], { stdout, stderr, env })
  `
  const unused = ['ipaddr.js', 'croner']
  const { stdout } = await runProgram(t, program, { missing: unused })

  assert.match(stdout, /^Usage: ratelimit .*verify-rollups/s)
})

/** pg is an optional peer: it is loaded where a database is in PostgreSQL, and nowhere else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { runProgram } from '../support/optional-peers.js'

test(
  'without pg SQLite works, with its client, and PostgreSQL is refused at start with the remedy',
  long(),
  async (t) => {
    const { stdout } = await runProgram(
      t,
      `
    import { Module } from 'node:module'
    const resolveFilename = Module._resolveFilename
    Module._resolveFilename = function (name, ...others) {
      if (name !== 'pg') return resolveFilename.call(this, name, ...others)
      throw Object.assign(new Error("Cannot find module 'pg'\\nRequire stack:"), { code: 'MODULE_NOT_FOUND' })
    }
    const { default: Fastify } = await import(${JSON.stringify(import.meta.resolve('fastify'))})
    const { rateLimitPlugin } = await import(${JSON.stringify(moduleUrl('src/index'))})
    const app = Fastify()
    await app.register(rateLimitPlugin, { useDynamicRules: true, logEvents: true })
    await app.ready()
    const { headers } = await app.inject('/')
    const { rateLimitRule } = app.smartRateLimit.client
    console.log('remaining', headers['x-ratelimit-remaining'], 'rules', await rateLimitRule.count())
    await app.close()
    const database = 'postgresql://app@127.0.0.1/app'
    for (const options of [{ database }, { events: { database }, logEvents: true }]) {
      const other = Fastify()
      try {
        await other.register(rateLimitPlugin, options)
      } catch (error) {
        console.log(error.code, error.message)
      }
    }
    `,
      { missing: ['pg'] },
    )
    const error =
      'FST_RATE_LIMIT_INVALID_SETTING A database with a URL of PostgreSQL needs the package pg, 8.16.3 or later: run "npm install pg" (Cannot find module \'pg\')'
    assert.deepEqual(stdout.trimEnd().split('\n'), ['remaining 99 rules 0', error, error])
  },
)

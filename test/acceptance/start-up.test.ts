/** An app loads what it uses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runApps } from '../support/optional-peers.js'

test('with its counters in memory an app loads no template engine, no mailer and no client of Redis', async (t) => {
  const unused = ['handlebars', '@fastify/view', 'nodemailer', 'ioredis', 'typebox', 'typebox/value']
  const { stdout } = await runApps(t, [{ middleware: { backend: 'memory' } }], ...unused)

  assert.match(stdout, /remaining 99/)
})

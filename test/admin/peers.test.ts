/** AdminJS is an optional peer: apps without the panel do not need it. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { type ProgramOptions, runProgram } from '../support/optional-peers.js'

/** An app with the panel, of which everybody is staff, that prints what it answers. */
function runPanel(t: TestContext, paths: readonly string[], options: ProgramOptions) {
  const program = `
    import Fastify from ${JSON.stringify(import.meta.resolve('fastify'))}
    import { rateLimitPlugin } from ${JSON.stringify(moduleUrl('src/index'))}
    import { adminPlugin } from ${JSON.stringify(moduleUrl('admin/index'))}
    const app = Fastify({ pluginTimeout: 60_000 })
    try {
      await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
      await app.register(adminPlugin, { isStaff: () => true })
      for (const url of ${JSON.stringify(paths)}) {
        const { statusCode, headers, body } = await app.inject(url)
        console.log(statusCode, url, headers['content-type'], body.length > 100)
      }
    } catch (error) {
      console.log(error.code, error.message)
    }
    await app.close()
  `
  return runProgram(t, program, options)
}

test('without one of its packages the panel is refused at start, with the remedy', long(), async (t) => {
  for (const missing of ['adminjs', '@adminjs/fastify']) {
    const { stdout } = await runPanel(t, [], { missing: [missing] })
    assert.match(
      stdout,
      new RegExp(
        `FST_RATE_LIMIT_INVALID_SETTING adminPlugin needs the package ${missing}: run "npm install adminjs @adminjs/fastify"`,
      ),
    )
  }
})

test('of a package that is installed and fails to import, the panel gives the cause', long(), async (t) => {
  const { stdout } = await runPanel(t, [], { failing: 'adminjs' })
  assert.match(
    stdout,
    /^FST_RATE_LIMIT_INVALID_SETTING adminPlugin cannot load the package adminjs, which is installed: .*some-dependency/,
  )
  assert.doesNotMatch(stdout, /npm install/)
})

test('in production the panel writes no file, and says nothing', long(), async (t) => {
  const paths = [
    '/admin/resources/rules',
    '/admin/frontend/assets/components.bundle.js',
    '/admin/frontend/assets/app.bundle.js',
  ]
  const { stdout, files } = await runPanel(t, paths, { env: { NODE_ENV: 'production' } })
  assert.deepEqual(stdout.trim().split('\n'), [
    '200 /admin/resources/rules text/html; charset=utf-8 true',
    '200 /admin/frontend/assets/components.bundle.js text/javascript; charset=utf-8 true',
    '200 /admin/frontend/assets/app.bundle.js text/javascript; charset=utf-8 true',
  ])
  assert.deepEqual(files, [])
})

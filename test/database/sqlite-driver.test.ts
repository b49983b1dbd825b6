/** One driver of SQLite serves a process: two copies of SQLite would release each other's locks on the file. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { moduleUrl } from '../support/modules.js'
import { runProgram } from '../support/optional-peers.js'

const isNode20 = process.versions.node.startsWith('20.')

test('the statements of this package, those of its client and those of its threads run on one driver', async (t) => {
  const { stdout } = await runProgram(
    t,
    `
    import { createRateLimitClient } from ${JSON.stringify(moduleUrl('src/index'))}
    import { databaseFor } from ${JSON.stringify(moduleUrl('src/database/database'))}
    const client = createRateLimitClient({ database: 'file:./a.db' })
    const database = databaseFor(client)
    await client.rateLimitRule.count()
    for (let report = 0; report < 3; report++) await database.report((query) => query('SELECT 1'))
    const loaded = process.report.getReport().sharedObjects.filter((path) => /better.sqlite3/.test(path))
    console.log(JSON.stringify(loaded))
    await client.$disconnect()
    await database.close()
    `,
  )
  const loaded: unknown = JSON.parse(stdout)
  assert.ok(Array.isArray(loaded))
  assert.equal(loaded.length, 1)
  assert.equal(/better-sqlite3-node20/.test(String(loaded[0])), isNode20)
})

const NOT_INSTALLED = `throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' })`

const UNBUILT = `
      Module._cache.unbuilt = {
        loaded: true,
        exports: class { constructor() { throw new Error('Could not locate the bindings file') } },
      }
      return 'unbuilt'`

/** Starts two apps on a Node of this version. @param instead what happens instead of finding a driver */
async function startWithoutDriver(t: TestContext, version: string, instead = NOT_INSTALLED): Promise<string[]> {
  const { stdout } = await runProgram(
    t,
    `
    import { Module } from 'node:module'
    Object.defineProperty(process, 'versions', { value: { ...process.versions, node: ${JSON.stringify(version)} } })
    const resolveFilename = Module._resolveFilename
    Module._resolveFilename = function (name, ...others) {
      if (!name.startsWith('better-sqlite3')) return resolveFilename.call(this, name, ...others)
      console.log('required', name)
      ${instead}
    }
    process.on('warning', ({ code, message }) => console.log(code, message))
    const { default: Fastify } = await import(${JSON.stringify(import.meta.resolve('fastify'))})
    const { rateLimitPlugin } = await import(${JSON.stringify(moduleUrl('src/index'))})
    for (let start = 0; start < 2; start++) {
      try {
        await Fastify().register(rateLimitPlugin, {})
      } catch (error) {
        console.log(error.code, error.message)
      }
    }
    `,
  )
  return stdout.trim().split('\n').sort()
}

function neededDriver(version: string): string[] {
  const error = `FST_RATE_LIMIT_INVALID_SETTING SQLite on Node.js ${version} needs an older driver: run "npm install better-sqlite3-node20@npm:better-sqlite3@12", or use Node.js 22.14 or later`
  return [error, error]
}

const REQUIRED = ['required better-sqlite3-node20', 'required better-sqlite3-node20']

test('Node 20 without its driver fails with the command that installs it, loads no other, and is warned about once', async (t) => {
  assert.deepEqual(await startWithoutDriver(t, '20.19.0'), [
    ...neededDriver('20.19.0'),
    'FST_RATE_LIMIT_NODE_20 Node.js 20 has had no security fixes since April 2026: use Node.js 22 or later',
    ...REQUIRED,
  ])
})

test('a Node 22 that lacks Node-API 10 needs the driver of Node 20', async (t) => {
  assert.deepEqual(await startWithoutDriver(t, '22.13.1'), [...neededDriver('22.13.1'), ...REQUIRED])
})

test('the driver of Node 20 whose binary was neither downloaded nor compiled fails with what to install', async (t) => {
  const lines = await startWithoutDriver(t, '20.19.0', UNBUILT)
  const error =
    'FST_RATE_LIMIT_INVALID_SETTING SQLite on Node.js 20.19.0 needs a binary of better-sqlite3-node20, which could not be loaded: install g++, make and python3, and the packages again with its install script, or use Node.js 22.14 or later'
  assert.deepEqual(lines.slice(0, 2), [error, error])
})

/** NestJS on Fastify, whose releases name one Fastify each: the app of the documentation, with a module of its own. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { readSamples } from '../../scripts/docs/samples.js'
import type { Host } from './host.js'

const ROOT = join(import.meta.dirname, '../..')

const MODULE = `
  import 'reflect-metadata'
  import { type ArgumentsHost, Catch, Controller, type ExceptionFilter, Get, HttpException, Module } from '@nestjs/common'
  import { APP_FILTER, BaseExceptionFilter } from '@nestjs/core'
  import type { FastifyReply, FastifyRequest } from 'fastify'
  import { RateLimitExceededError } from 'fastify-smart-ratelimit'
  import { OrdersController } from './orders.controller.js'
  @Controller()
  class Failures {
    @Get('fail')
    fail(): void {
      throw new Error('broken')
    }
  }
  @Catch(RateLimitExceededError)
  class Unwrapped implements ExceptionFilter {
    catch(): never {
      throw new Error('NestJS does not wrap errors of Fastify any more')
    }
  }
  @Catch(HttpException)
  class Refusals extends BaseExceptionFilter<HttpException> {
    override catch(exception: HttpException, host: ArgumentsHost): void {
      const request = host.switchToHttp().getRequest<FastifyRequest>()
      const decision = request.server.smartRateLimit.decisionOf(request)
      if (exception.getStatus() === 429) {
        host.switchToHttp().getResponse<FastifyReply>().header('x-refused-by', String(decision?.policy))
      }
      super.catch(exception, host)
    }
  }
  const providers = [Refusals, Unwrapped].map((useClass) => ({ provide: APP_FILTER, useClass }))
  @Module({ controllers: [OrdersController, Failures], providers })
  export class AppModule {}
`

const COMPILER_OPTIONS = {
  target: 'es2023',
  module: 'nodenext',
  strict: true,
  skipLibCheck: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  types: ['node'],
}

/** A release of NestJS, and the Fastify that it has: with another one beside it, the sample has no types. */
export function nestHost(version: string, fastify: string): Host {
  const packages = ['core', 'common', 'platform-fastify'].map((name) => `@nestjs/${name}@${version}`)
  return {
    packages: [...packages, `fastify@${fastify}`, 'reflect-metadata', 'rxjs', 'typescript@5', '@types/node@20'],
    files: {
      // NestJS 11 pins an older router.
      'package.json': JSON.stringify({ private: true, type: 'module', overrides: { 'find-my-way': '^9.9.0' } }),
      'app.module.ts': MODULE,
      'orders.controller.ts': documented('file=orders.controller.ts'),
      'app.ts': documentedApp(),
      'tsconfig.json': JSON.stringify({ compilerOptions: COMPILER_OPTIONS }),
    },
    async check({ run, start }) {
      const compiled = await run('tsc')
      assert.equal(compiled.status, 0, compiled.output)
      const server = await start('node', ['app.js'])
      const listed = await server.request('/orders', { headers: { origin: 'https://shop.example' } })
      assert.deepEqual([listed.status, await listed.json()], [200, ['one']])
      assert.equal(listed.headers.get('x-ratelimit-remaining'), '9')
      // Metadata of handlers: no limit, a limit of their own beside that of all routes, a cost.
      assert.deepEqual(await server.statuses(12, '/orders/health'), Array(12).fill(200))
      assert.deepEqual(await server.statuses(3, '/orders/export'), [200, 200, 429])
      assert.equal((await server.request('/orders/search')).headers.get('x-ratelimit-remaining'), '3')
      const preflight = {
        method: 'OPTIONS',
        headers: { origin: 'https://shop.example', 'access-control-request-method': 'GET' },
      }
      assert.deepEqual(await server.statuses(6, '/orders', preflight), Array(6).fill(204))
      assert.deepEqual(await server.statuses(1, '/fail'), [500])
      assert.deepEqual(await server.statuses(3, '/missing'), [404, 404, 429])
      const refused = await server.request('/orders')
      assert.equal(refused.status, 429)
      // Errors are in the form that NestJS gives them.
      assert.match(await refused.text(), /Rate limit exceeded, retry in/)
      // An exception filter gets them as the guide says.
      assert.equal(refused.headers.get('x-refused-by'), 'default')
      assert.equal((await server.request('/ratelimit/dashboard/')).status, 403)
      const { output } = await server.stop()
      assert.doesNotMatch(output, /"level":[45]0/)
    },
  }
}

/** The sample of the guide, with a limit that a test can use up, on a free port that it prints. */
function documentedApp(): string {
  const changes: [string, string][] = [
    ["'100/m'", "'10/d'"],
    ['new FastifyAdapter()', "new FastifyAdapter({ logger: { level: 'warn' } })"],
    ['app.listen(3000)', "app.listen(0, '127.0.0.1')\nconsole.log(await app.getUrl())"],
  ]
  return changes.reduce((code, [from, to]) => {
    assert.ok(code.includes(from), `The sample of NestJS has no ${from}`)
    return code.replace(from, to)
  }, documented('not-run'))
}

/** The first sample of the guide with a flag. */
function documented(flag: string): string {
  const sample = readSamples(ROOT, join('docs', 'guides', 'nestjs.md')).find(({ flags }) => flags.includes(flag))
  assert.ok(sample !== undefined, `The guide has no sample with ${flag}`)
  return sample.code
}

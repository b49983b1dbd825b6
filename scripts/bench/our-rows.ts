import { type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { clientKey, FULL_PATH, LIMIT, MOSTLY_FULL, type Need, type Place, type Row } from './row.js'

type Backend = 'memory' | Need

const NAMES: Record<Backend, string> = {
  memory: 'memory',
  sqlite: 'SQLite',
  postgresql: 'PostgreSQL',
  redis: 'Redis',
}

export const OUR_ROWS: readonly Row[] = [
  allowing('memory'),
  allowing('sqlite'),
  allowing('postgresql'),
  allowing('redis'),
  logging('sqlite'),
  logging('postgresql'),
]

export const OUR_REFUSING_ROWS: readonly Row[] = [refusing('memory'), refusing('postgresql'), refusing('redis')]

function allowing(backend: Backend): Row {
  return {
    id: `ours-${backend}`,
    title: titleOf(backend),
    bare: 'bare',
    ...needsOf(backend),
    async register(app, place) {
      await app.register(rateLimitPlugin, optionsOf(backend, place))
    },
  }
}

function logging(backend: Backend): Row {
  return {
    id: `ours-${backend}-events`,
    title: `${titleOf(backend)} + events`,
    bare: 'bare',
    withoutEvents: `ours-${backend}`,
    ...needsOf(backend),
    async register(app, place) {
      await app.register(rateLimitPlugin, { ...optionsOf(backend, place), logEvents: true })
    },
  }
}

function refusing(backend: Backend): Row {
  return {
    id: `ours-${backend}-refused`,
    title: `${titleOf(backend)}, 90 % refused`,
    bare: 'bare-refused',
    paths: MOSTLY_FULL,
    ...needsOf(backend),
    async register(app, place) {
      const { middleware, ...options } = optionsOf(backend, place)
      await app.register(rateLimitPlugin, {
        ...options,
        middleware: { ...middleware, rateLimits: { [FULL_PATH]: '1/d' } },
      })
    },
  }
}

function titleOf(backend: Backend): string {
  return `fastify-smart-ratelimit, ${NAMES[backend]}`
}

function needsOf(backend: Backend): Pick<Row, 'needs'> {
  return backend === 'memory' ? {} : { needs: backend }
}

function optionsOf(backend: Backend, { url, name }: Place): RateLimitOptions {
  const middleware = { defaultRate: `${LIMIT}/m`, key: clientKey }
  if (backend === 'memory') return { middleware: { ...middleware, backend } }
  if (backend === 'redis') return { redis: url, namespace: name, middleware: { ...middleware, backend } }
  return { database: url, schema: name, middleware: { ...middleware, backend: 'database' } }
}

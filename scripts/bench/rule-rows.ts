import { createRateLimitClient, migrate, rateLimitPlugin } from '../../src/index.js'
import { CLIENT_HEADER, NEW_ENDING } from './load.js'
import { LIMIT, type Row, THINGS_PATH } from './row.js'

const REPEATING = Array.from({ length: 16 }, (_, id) => `${THINGS_PATH}${id}`)
const NEW = [THINGS_PATH + NEW_ENDING]
const COUNTS = [1, 1_000, 10_000]
/** One of this many rules that do not match has no literal beginning. */
const ANYWHERE = 10

/** Rows with rules of which the last one matches. Counters are in memory, so that little else costs time. */
export const RULE_ROWS: readonly Row[] = [
  ...COUNTS.map((count) => withRules(count, REPEATING, { suffix: '', text: 'paths that repeat' })),
  ...COUNTS.map((count) => withRules(count, NEW, { suffix: '-new', text: 'paths that never repeat' })),
]

function withRules(count: number, paths: readonly string[], { suffix, text }: { suffix: string; text: string }): Row {
  return {
    id: `ours-rules-${count}${suffix}`,
    title: `fastify-smart-ratelimit, ${count.toLocaleString('en-US')} rule${count === 1 ? '' : 's'}, ${text}`,
    bare: 'bare',
    needs: 'sqlite',
    paths,
    async register(app, { url }) {
      await migrate({ database: url })
      const client = createRateLimitClient({ database: url })
      await client.rateLimitRule.createMany({ data: [...others(count - 1), MATCHING] })
      await client.$disconnect()
      // A request that no rule matches is refused, and so counts as failed.
      const middleware = { backend: 'memory', defaultRate: '0/m' } as const
      await app.register(rateLimitPlugin, { database: url, useDynamicRules: true, middleware })
    },
  }
}

const MATCHING = {
  name: 'things',
  pathPattern: `^${THINGS_PATH}`,
  rate: `${LIMIT}/m`,
  key: `header:${CLIENT_HEADER}`,
  priority: 1,
}

function others(count: number) {
  return Array.from({ length: count }, (_, index) => ({
    name: `rule-${index}`,
    pathPattern:
      index % ANYWHERE === 0 ? `/export-${index}\\.(csv|pdf)$` : `^/service-${index}/v\\d+/(items|orders)/[^/]+$`,
    rate: '100/m',
    key: 'ip',
    priority: 100,
  }))
}

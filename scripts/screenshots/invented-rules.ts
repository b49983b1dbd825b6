import type { RateLimitClient } from '../../src/client.js'
import { asActor } from '../../src/index.js'

/** The rules and overrides of an invented shop, with a little history. */
export async function createInventedRules(client: RateLimitClient, nowMs: number): Promise<void> {
  const rules = [
    {
      name: 'login',
      description: 'Guessing passwords',
      pathPattern: '^/auth/login',
      method: 'POST',
      rate: '5/m',
      priority: 100,
    },
    {
      name: 'api-writes',
      pathPattern: '^/api/',
      method: 'POST,PUT,PATCH,DELETE',
      rate: '20/m',
      key: 'user',
      priority: 50,
    },
    {
      name: 'partners',
      pathPattern: '^/api/',
      rate: '5000/h',
      key: 'header:X-Api-Key',
      algorithm: 'token_bucket',
      priority: 40,
    },
    {
      name: 'search',
      pathPattern: '^/api/search',
      rate: '30/m',
      algorithm: 'sliding_window',

      priority: 60,
    },
    {
      name: 'sale',
      description: 'For the days of the sale',
      pathPattern: '^/api/products',
      rate: '300/m',
      isActive: false,
    },
  ]
  await asActor('alice', async () => {
    for (const data of rules) await client.rateLimitRule.create({ data })
    await client.rateLimitRule.update({ where: { name: 'login' }, data: { rate: '6/m', priority: 90 } })
  })
  await asActor('bob', async () => {
    await client.rateLimitRule.update({ where: { name: 'login' }, data: { rate: '5/m', priority: 100 } })
    const expiresAt = new Date(nowMs + 86_400_000)
    await client.rateLimitOverride.create({
      data: { client: 'ip:203.0.113.7', effect: 'deny', expiresAt, note: 'Tries passwords' },
    })
  })
}

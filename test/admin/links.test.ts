import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forEachDatabase } from '../support/databases.js'
import { PANEL, startWithPanel } from '../support/panel-app.js'

const ATTACKER = '198.51.100.66'
const VICTIM = '192.0.2.77'

forEachDatabase((provider) => {
  test("a client that spells another client's address in a header gets no link that blocks that one", async (t) => {
    const { request, database, asStaff, app } = await startWithPanel(t, provider)
    const rules = [
      { name: 'partners', pathPattern: '^/api/partners', rate: '1/h', key: 'header:X-Api-Key' },
      { name: 'rest', pathPattern: '^/api/orders', rate: '1/h' },
    ]
    for (const data of rules) await database.client.rateLimitRule.create({ data })
    await app.smartRateLimit.rules.reload()
    const spelled = { from: ATTACKER, headers: { 'x-api-key': VICTIM } }
    for (let times = 0; times < 3; times++) await request('/api/partners', spelled)
    // Counted by its address, since it has no such header: a client of the same key in the log.
    await request('/api/partners', { from: VICTIM })
    for (let times = 0; times < 2; times++) await request('/api/orders', { from: ATTACKER })
    await app.smartRateLimit.events.flush()
    const headers = await asStaff()
    const json = async (path: string) => JSON.parse((await request(`${PANEL}/api/${path}`, { headers })).text)

    const { records } = await json('resources/events/actions/list')
    const client = (block: string | undefined) =>
      block === undefined ? null : new URL(block, 'http://localhost').searchParams.get('client')
    assert.deepEqual(
      records.map(({ params }: { params: Record<string, string> }) => [params.ruleName, client(params['links.block'])]),
      [
        ['rest', `ip:${ATTACKER}`],
        ['rest', `ip:${ATTACKER}`],
        ['partners', `ip:${VICTIM}`],
        ['partners', null],
        ['partners', null],
        ['partners', null],
      ],
    )
    const { clients } = await json('dashboard')
    assert.deepEqual(clients, [
      {
        name: `header:x-api-key:${VICTIM}`,
        refused: '2 over the limit',
        href: `/ops/dashboard/client.html?client=header%3Ax-api-key%3A${VICTIM}&days=1`,
      },
      {
        name: `ip:${ATTACKER}`,
        refused: '1 over the limit',
        href: `/ops/dashboard/client.html?client=ip%3A${ATTACKER}&days=1`,
      },
    ])
    for (const [key, isOffered] of [
      [`rule:partners:${VICTIM}`, false],
      [`rule:rest:${ATTACKER}`, true],
    ] as const) {
      const { text } = await request(`/ops/dashboard/offender.html?${new URLSearchParams({ key })}`, { headers })
      assert.equal(text.includes('>Block</a>'), isOffered, key)
      assert.ok(text.includes('>Events</a>'))
    }
  })
})

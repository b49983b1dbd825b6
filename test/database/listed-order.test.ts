/** Lists of the client have an order of their own where none is asked for: events newest first, rules as they are matched. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../support/at-end.js'
import { forEachDatabase } from '../support/databases.js'

const AT = Date.UTC(2026, 0, 15)

forEachDatabase((_provider, open) => {
  test('events are listed newest first, whatever the order of their ids', async (t) => {
    const { client, close } = await open()
    atEnd(t, close)
    const events = client.rateLimitEvent
    for (const [path, minute] of [
      ['/b', 1],
      ['/c', 2],
      ['/a', 0],
      ['/d', 2],
    ] as const) {
      const timestamp = new Date(AT + minute * 60_000)
      await events.create({
        data: { timestamp, key: 'ip:203.0.113.7', path, method: 'GET', allowed: true, count: 1, limit: 5 },
      })
    }
    const paths = (rows: readonly { path: string }[]) => rows.map(({ path }) => path).join('')

    assert.equal(paths(await events.findMany()), '/d/c/b/a')
    assert.equal((await events.findFirst())?.path, '/d')
    assert.equal((await events.findFirstOrThrow({ where: { path: { not: '/d' } } })).path, '/c')
    assert.equal(paths(await events.findMany({ take: 2, skip: 1 })), '/c/b')
    assert.equal(paths(await events.findMany({ take: -2 })), '/b/a')
    const { id } = await events.findFirstOrThrow({ where: { path: '/c' } })
    assert.equal(paths(await events.findMany({ cursor: { id }, skip: 1 })), '/b/a')
    assert.equal(paths(await events.findMany({ distinct: ['timestamp'] })), '/d/b/a')
    assert.equal(paths(await events.findMany({ orderBy: { path: 'asc' } })), '/a/b/c/d')
    assert.equal(paths(await client.$transaction((inside) => inside.rateLimitEvent.findMany())), '/d/c/b/a')
  })

  test('rules are listed by their priority, the highest first, then by their name', async (t) => {
    const { client, close } = await open()
    atEnd(t, close)
    const rules = client.rateLimitRule
    for (const [name, priority] of [
      ['c', 0],
      ['b', 5],
      ['a', 0],
      ['d', 5],
    ] as const) {
      await rules.create({ data: { name, priority, pathPattern: '^/', rate: '1/m' } })
    }
    const names = (rows: readonly { name: string }[]) => rows.map(({ name }) => name).join('')

    assert.equal(names(await rules.findMany()), 'bdac')
    assert.equal((await rules.findFirst())?.name, 'b')
    assert.equal(names(await rules.findMany({ take: -1 })), 'c')
    assert.equal(names(await rules.findMany({ orderBy: { name: 'desc' } })), 'dcba')
  })
})

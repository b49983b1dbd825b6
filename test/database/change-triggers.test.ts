/** The triggers on rules and overrides, which record every change. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { toColumn } from '../../src/database/dialect.js'
import { defaultsFor, type FieldTable, fieldEntries } from '../../src/rules/description.js'
import { OVERRIDES } from '../../src/rules/overrides/override.js'
import { RULES } from '../../src/rules/rule.js'
import { loadActiveRules } from '../../src/rules/rule-repository.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'

/** A busy machine is no reason to give a transaction up. */
const PATIENT = { timeout: 60_000, maxWait: 60_000 }

interface ChangeRow {
  readonly actor: string
  readonly source: string
  readonly entity: string
  readonly name: string
  readonly action: string
  readonly before: string | null
  readonly after: string | null
}

const RULE = `(name, path_pattern, rate) VALUES ('api', '^/api/', '5/m')`

forEachDatabase((provider, open) => {
  describe('the database', () => {
    async function withDatabase(
      work: (database: TestDatabase, tools: ReturnType<typeof createTools>) => Promise<void>,
    ) {
      const database = await open()
      try {
        await work(database, createTools(database))
      } finally {
        await database.close()
      }
    }

    test('records what raw SQL does to a rule, once per change, and counts up the revision', () =>
      withDatabase(async (_database, { run, changes, revision }) => {
        await run(`INSERT INTO rate_limit_rule ${RULE}`)
        await run(`UPDATE rate_limit_rule SET rate = '6/m', is_active = FALSE`)
        await run('DELETE FROM rate_limit_rule')
        const before = { ...defaultsFor(RULES.fields), name: 'api', pathPattern: '^/api/', rate: '5/m' }
        const after = { ...before, rate: '6/m', isActive: false }
        assert.deepEqual(await changes(), [
          { actor: '', source: 'sql', entity: 'rule', name: 'api', action: 'create', before: null, after: before },
          { actor: '', source: 'sql', entity: 'rule', name: 'api', action: 'update', before, after },
          { actor: '', source: 'sql', entity: 'rule', name: 'api', action: 'delete', before: after, after: null },
        ])
        assert.equal(await revision(), 3)
      }))

    test('records when a rule starts and ends in milliseconds', () =>
      withDatabase(async ({ database }, { run, changes }) => {
        const zone = provider === 'sqlite' ? '' : '+00'
        await run(
          `INSERT INTO rate_limit_rule (name, path_pattern, rate, starts_at) VALUES ('api', '^/', '5/m', '2027-01-01 00:00:00${zone}')`,
        )
        await run(`UPDATE rate_limit_rule SET ends_at = '2027-01-02 00:00:00${zone}', starts_at = NULL`)
        const [created, updated] = await changes()
        assert.equal(Object(created?.after).startsAt, Date.UTC(2027, 0))
        assert.equal(Object(updated?.after).endsAt, Date.UTC(2027, 0, 2))
        const { rules, rejected } = await loadActiveRules(database)
        assert.deepEqual(rejected, [])
        assert.deepEqual(
          rules.map(({ startsAtMs, endsAtMs }) => [startsAtMs, endsAtMs]),
          [[null, Date.UTC(2027, 0, 2)]],
        )
      }))

    for (const description of [RULES, OVERRIDES]) {
      test(`records each field of ${description.list} that changes`, () =>
        withDatabase(async ({ database: { dialect } }, { run, changes }) => {
          const row = description === RULES ? RULE : `(client, effect) VALUES ('user:7', 'deny')`
          await run(`INSERT INTO ${description.table} ${row}`)
          const edited = { text: ["'x'", 'x'], integer: ['7', 7], boolean: [], moment: [dialect.fromMs('7000'), 7_000] }
          const edits = fieldEntries<FieldTable>(description.fields).map(([name, field]) => {
            const other = field.default !== true
            const [sql, value] = field.kind === 'boolean' ? [String(other), other] : edited[field.kind]
            return { name, sql, value }
          })
          for (const { name, sql } of edits) await run(`UPDATE ${description.table} SET ${toColumn(name)} = ${sql}`)
          const [, ...updates] = await changes()
          assert.deepEqual(
            updates.map(({ before, after }) =>
              Object.entries(Object(after)).filter(([name, value]) => Object(before)[name] !== value),
            ),
            edits.map(({ name, value }) => [[name, value]]),
          )
        }))
    }

    test('records overrides with their expiry in milliseconds', () =>
      withDatabase(async (_database, { run, changes }) => {
        await run(
          `INSERT INTO rate_limit_override (client, effect, expires_at) VALUES ('ip:10.0.0.0/8', 'deny', '2027-01-01 00:00:00${provider === 'sqlite' ? '' : '+00'}')`,
        )
        await run(`UPDATE rate_limit_override SET note = 'x', expires_at = NULL`)
        const before = {
          client: 'ip:10.0.0.0/8',
          effect: 'deny',
          algorithm: 'fixed_window',
          pathPattern: '',
          expiresAt: Date.UTC(2027, 0, 1),
          note: '',
        }
        assert.deepEqual(
          (await changes()).map(({ action, before, after }) => ({ action, before, after })),
          [
            { action: 'create', before: null, after: before },
            { action: 'update', before, after: { ...before, expiresAt: null, note: 'x' } },
          ],
        )
      }))

    test('records and counts no update that changes nothing, nor one of updated_at alone', () =>
      withDatabase(async (_database, { run, changes, revision }) => {
        await run(`INSERT INTO rate_limit_rule ${RULE}`)
        await run(
          `UPDATE rate_limit_rule SET rate = '5/m', updated_at = created_at, changed_by = 'abcdefghijklmnopclient:'`,
        )
        assert.equal((await changes()).length, 1)
        assert.equal(await revision(), 1)
      }))

    test('takes the source and the actor from a new token, and never from one that an earlier write left', () =>
      withDatabase(async (_database, { run, changes }) => {
        await run(`INSERT INTO rate_limit_rule ${RULE}`)
        await run(`UPDATE rate_limit_rule SET rate = '6/m', changed_by = 'aaaaaaaaaaaaaaaapanel:al:ice'`)
        await run(`UPDATE rate_limit_rule SET rate = '7/m'`)
        await run(`UPDATE rate_limit_rule SET rate = '8/m', changed_by = 'bbbbbbbbbbbbbbbbclient:'`)
        await run(`UPDATE rate_limit_rule SET rate = '9/m', changed_by = ''`)
        await run('DELETE FROM rate_limit_rule')
        assert.deepEqual(
          (await changes()).map(({ source, actor }) => `${source} ${actor}`),
          ['sql ', 'panel al:ice', 'sql ', 'client ', 'sql ', 'sql '],
        )
      }))

    test('counts up the revision once per transaction at least, and not at all when it rolls back', () =>
      withDatabase(async ({ client }, { run, revision }) => {
        await client.$transaction(async (transaction) => {
          for (const name of ['a', 'b']) {
            await transaction.rateLimitRule.create({ data: { name, pathPattern: '^/', rate: '1/m' } })
          }
        }, PATIENT)
        const afterwards = await revision()
        assert.ok(afterwards >= 1)
        await assert.rejects(
          client.$transaction(async (transaction) => {
            await transaction.rateLimitRule.deleteMany()
            throw new Error('changed my mind')
          }, PATIENT),
        )
        assert.equal(await revision(), afterwards)
        await run('DELETE FROM rate_limit_rule')
        assert.ok((await revision()) > afterwards)
      }))

    if (provider === 'postgresql') {
      test('notices TRUNCATE', () =>
        withDatabase(async (_database, { run, changes, revision }) => {
          await run(`INSERT INTO rate_limit_rule ${RULE}`)
          await run('TRUNCATE rate_limit_rule')
          assert.deepEqual(
            (await changes()).map(({ action, name }) => `${action} ${name}`),
            ['create api', 'delete api'],
          )
          assert.equal(await revision(), 2)
        }))

      test('lets transactions that edit rules in opposite order wait for each other no longer than they must', () =>
        withDatabase(async ({ client }) => {
          const rules = client.rateLimitRule
          const names = ['a', 'b', 'c', 'd']
          await rules.createMany({ data: names.map((name) => ({ name, pathPattern: '^/', rate: '1/m' })) })
          // Each edits a rule of its own first, then waits for all others to have done that: a lock on the one row of
          // the revision, held from the first edit on, would stop them all.
          let started = 0
          let allStarted: () => void = () => undefined
          const everybody = new Promise<void>((resolve) => {
            allStarted = resolve
          })
          await Promise.all(
            names.map((name) =>
              client.$transaction(async (transaction) => {
                await transaction.rateLimitRule.update({ where: { name }, data: { rate: '2/m' } })
                if (++started === names.length) allStarted()
                await everybody
                await transaction.rateLimitRule.update({ where: { name }, data: { rate: '3/m' } })
              }, PATIENT),
            ),
          )
          assert.equal(await rules.count({ where: { rate: '3/m' } }), names.length)
        }))
    }
  })
})

function createTools({ database }: TestDatabase) {
  const { table } = database.dialect
  const named = (sql: string) => sql.replace(/\brate_limit_\w+/g, (name) => table(name))
  return {
    run: (sql: string) => database.execute(named(sql)),
    async changes() {
      const rows = await database.query<ChangeRow>(
        named('SELECT actor, source, entity, name, action, before, after FROM rate_limit_change ORDER BY id'),
      )
      return rows.map((row) => ({ ...row, before: parsed(row.before), after: parsed(row.after) }))
    },
    async revision() {
      const [row] = await database.query<{ revision: number }>(named('SELECT revision FROM rate_limit_revision'))
      return row?.revision ?? Number.NaN
    },
  }
}

function parsed(json: string | null): unknown {
  return json === null ? null : JSON.parse(json)
}

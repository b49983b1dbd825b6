import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MissingTableError } from '../../src/ground/errors.js'
import { createOutageLog } from '../../src/ground/outage-log.js'
import { fakeClock } from '../support/clock.js'

function start() {
  const lines: { level: string; details: object; message: string }[] = []
  const write = (level: string) => (details: object, message: string) => lines.push({ level, details, message })
  const clock = fakeClock()
  const log = createOutageLog({ error: write('error'), warn: write('warn'), info: write('info') }, clock)
  return { clock, log, lines, taken: () => lines.splice(0) }
}

const REFUSED = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' })

test('the first line of a cause has the error, later ones its message, and none says the same twice', () => {
  const { log, taken } = start()
  const ended = new Error('Connection terminated unexpectedly')
  const wrapped = new Error('The database does not respond', { cause: REFUSED })
  log.error({ err: ended }, 'store')
  log.error({ err: wrapped }, 'rules')
  log.error({ err: REFUSED }, 'rules')
  log.warn({ err: REFUSED }, 'rollups')
  for (const dropped of [1, 1, 2]) log.error({ err: REFUSED, dropped }, 'events')
  log.error({ channel: 'email' }, 'alert')
  assert.deepEqual(
    taken().map(({ details, message }) => [message, details]),
    [
      ['store', { err: ended }],
      ['rules', { cause: REFUSED.message }],
      ['events', { dropped: 1, cause: REFUSED.message }],
      ['events', { dropped: 2, cause: REFUSED.message }],
      ['alert', { channel: 'email' }],
    ],
  )
})

test('another cause, one after a success, and one that was not met for ten minutes have stacks of their own', () => {
  const { log, clock, taken } = start()
  const missing = new MissingTableError('A table is missing', { cause: new Error('relation "a"') })
  const full = Object.assign(new Error('disk full'), { code: 'ENOSPC' })
  for (const err of [REFUSED, missing, full]) log.error({ err }, 'store')
  log.info('answers again')
  log.error({ err: REFUSED }, 'store')
  clock.advance(601_000)
  log.error({ err: REFUSED }, 'store')
  assert.deepEqual(
    taken().map(({ details }) => ('err' in details ? details.err : details)),
    [REFUSED, missing, full, {}, REFUSED, REFUSED],
  )
})

import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { scheduleProbe } from '../../../src/operations/health/probes.js'
import { JobLeases } from '../../../src/operations/schedule/job-leases.js'
import { type Job, Scheduler } from '../../../src/operations/schedule/scheduler.js'
import { atEnd } from '../../support/at-end.js'
import { type FakeClock, fakeClock } from '../../support/clock.js'

import { forEachDatabase, openTestDatabase, type TestDatabase } from '../../support/databases.js'
import { eventually } from '../../support/eventually.js'

/** Every five minutes. */
const nextRun: Job['nextRun'] = (afterMs) => (Math.floor(afterMs / (5 * MINUTE_MS)) + 1) * 5 * MINUTE_MS

/** A process with a schedule of one job. */
function startProcess({ database }: TestDatabase, clock: FakeClock, run: Job['run'], name = 'job') {
  const log: string[] = []
  const scheduler = new Scheduler({
    jobs: [{ name, nextRun, run }],
    leases: new JobLeases(database),
    clock,
    log: { error: (_details, message) => log.push(message) },
  })
  return { scheduler, log }
}

forEachDatabase((_provider, open) => {
  async function start(t: TestContext) {
    const clock = fakeClock()
    const database = await open(clock)
    atEnd(t, database.close)
    return { clock, database }
  }

  test('a job runs once at each moment of its schedule, whichever of the processes does it', async (t) => {
    const { clock, database } = await start(t)
    let runs = 0
    const run = async () => {
      runs++
      return null
    }
    const processes = Array.from({ length: 4 }, () => startProcess(database, clock, run).scheduler)
    const tick = () => Promise.all(processes.map((process) => process.tick()))

    await tick()
    assert.equal(runs, 0)
    clock.advance(5 * MINUTE_MS)
    await tick()
    await tick()
    assert.equal(runs, 1)
    for (let moments = 0; moments < 3; moments++) {
      clock.advance(5 * MINUTE_MS)
      await tick()
    }
    assert.equal(runs, 4)
  })

  test('processes whose clocks differ take each moment once', async (t) => {
    const [clock, behind] = [fakeClock(), fakeClock()]
    const database = await open(clock)
    atEnd(t, database.close)
    let runs = 0
    const run = async () => {
      runs++
      return null
    }
    const one = startProcess(database, clock, run).scheduler
    const other = startProcess(database, behind, run).scheduler
    for (let moments = 0; moments < 3; moments++) {
      clock.advance(5 * MINUTE_MS)
      await one.tick()
      // A minute and a half later the other one thinks that it is time.
      behind.advance(5 * MINUTE_MS)
      await other.tick()
    }

    assert.equal(runs, 3)
  })

  test('a job that still runs is passed over, in its own process and in others', async (t) => {
    const { clock, database } = await start(t)
    let runs = 0
    let finish: (value: null) => void = () => undefined
    const run = () => {
      runs++
      return new Promise<null>((resolve) => {
        finish = resolve
      })
    }
    const one = startProcess(database, clock, run).scheduler
    const other = startProcess(database, clock, run).scheduler
    clock.advance(5 * MINUTE_MS)
    const running = one.tick()
    await eventually('the job runs', () => runs === 1)
    const leases = new JobLeases(database.database)
    const [record] = await leases.records()
    assert.equal(record?.finishedMs, null)
    clock.advance(MINUTE_MS)
    assert.equal(await leases.take('job', clock.now(), clock.now()), undefined)
    await other.tick()
    assert.equal(runs, 1)
    finish(null)
    await running
    clock.advance(5 * MINUTE_MS)
    void one.tick()
    await eventually('the job runs again', () => runs === 2)
    finish(null)
    await one.close()
  })

  test('the lease of a process that died ends after two minutes, and another one has the next moment', async (t) => {
    const { clock, database } = await start(t)
    const leases = new JobLeases(database.database)
    const dead = await leases.take('job', clock.now(), clock.now())
    assert.notEqual(dead, undefined)
    const look = scheduleProbe(leases, clock)
    clock.advance(2 * MINUTE_MS - 1)
    assert.equal(await leases.take('job', clock.now(), clock.now()), undefined)
    assert.equal(await look(), 'job began 120 s ago')
    clock.advance(2)
    await assert.rejects(async () => look(), /^Error: job did not end: the process that ran it died$/)
    assert.notEqual(await leases.take('job', clock.now(), clock.now()), undefined)
    assert.equal(await leases.renew('job', dead ?? '', clock.now()), false)
  })

  for (const hours of [2, 365 * 24]) {
    test(`a clock that was ${hours} hours ahead keeps no job from running, whether it ended or died`, async (t) => {
      const { clock, database } = await start(t)
      const leases = new JobLeases(database.database)
      const future = clock.now() + hours * HOUR_MS
      const holder = await leases.take('ended', future, future)
      await leases.finish('ended', holder ?? '', future + MINUTE_MS, null)
      await leases.take('died', future, future)

      assert.notEqual(await leases.take('ended', clock.now(), clock.now()), undefined)
      assert.notEqual(await leases.take('died', clock.now(), clock.now()), undefined)
    })
  }

  test('after a clock was set back the schedule goes on by that clock', async (t) => {
    const { clock, database } = await start(t)
    let runs = 0
    const { scheduler } = startProcess(database, clock, async () => {
      runs++
      return null
    })
    clock.advance(5 * MINUTE_MS)
    await scheduler.tick()
    assert.equal(runs, 1)
    clock.advance(-2 * HOUR_MS)
    await scheduler.tick()
    assert.equal(runs, 1)
    clock.advance(5 * MINUTE_MS)
    await scheduler.tick()
    assert.equal(runs, 2)
  })

  test('what failed is kept until the next run, and logged', async (t) => {
    const { clock, database } = await start(t)
    const outcomes = [
      () => Promise.reject(new Error('on purpose')),
      async () => 'webhook failed (status 500)',
      async () => null,
    ]
    const { scheduler, log } = startProcess(database, clock, () => (outcomes.shift() ?? (async () => null))())
    const leases = new JobLeases(database.database)
    const errors: (string | null | undefined)[] = []
    for (let moments = 0; moments < 3; moments++) {
      clock.advance(5 * MINUTE_MS)
      await scheduler.tick()
      errors.push((await leases.records())[0]?.error)
    }

    assert.deepEqual(errors, ['on purpose', 'webhook failed (status 500)', null])
    assert.deepEqual(log, ['Rate limit schedule: job failed: on purpose'])
  })

  test('a failure is reported to the apps that have the job, and to all apps for two days', async (t) => {
    const { clock, database } = await start(t)
    const { scheduler } = startProcess(database, clock, async () => 'webhook failed (status 500)', 'alerts@shop')
    clock.advance(5 * MINUTE_MS)
    await scheduler.tick()
    const leases = new JobLeases(database.database)
    const everybody = scheduleProbe(leases, clock)

    assert.equal(await scheduleProbe(leases, clock, ['alerts'])(), 'nothing was due yet')
    await assert.rejects(async () => everybody(), /^Error: alerts@shop failed: webhook failed \(status 500\)$/)
    clock.advance(49 * HOUR_MS)
    await assert.rejects(async () => scheduleProbe(leases, clock, ['alerts@shop'])(), /status 500/)
    assert.equal(
      await everybody(),
      'alerts@shop failed: webhook failed (status 500) (176400 s ago, and did not run since)',
    )
  })

  test('a database that is away is logged once, and the schedule goes on, with the moment it missed', async (t) => {
    const { clock, database } = await start(t)
    let runs = 0
    const { scheduler, log } = startProcess(database, clock, async () => {
      runs++
      return null
    })
    const table = database.database.dialect.table('rate_limit_job')
    const away = database.database.dialect.table('rate_limit_job_away')
    await database.database.execute(`ALTER TABLE ${table} RENAME TO "rate_limit_job_away"`)
    for (let moments = 0; moments < 3; moments++) {
      clock.advance(5 * MINUTE_MS)
      await scheduler.tick()
    }
    assert.deepEqual([runs, log.length], [0, 1])
    await database.database.execute(`ALTER TABLE ${away} RENAME TO "rate_limit_job"`)
    // It missed the last moment, and makes up for that one.
    clock.advance(MINUTE_MS)
    await scheduler.tick()
    await scheduler.tick()
    assert.equal(runs, 1)
    clock.advance(4 * MINUTE_MS)
    await scheduler.tick()

    assert.equal(runs, 2)
  })
})

describe('a scheduler that stops', () => {
  test('asks its jobs to, and waits for them', async (t) => {
    const clock = fakeClock()
    const database = await openTestDatabase('sqlite', clock)
    atEnd(t, database.close)
    let stopped = false
    const { scheduler, log } = startProcess(
      database,
      clock,
      (signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            stopped = true
            resolve(null)
          })
        }),
    )
    clock.advance(5 * MINUTE_MS)
    const running = scheduler.tick()
    const leases = new JobLeases(database.database)
    await eventually('the job runs', async () => (await leases.records()).length === 1)
    await scheduler.close()
    await running

    assert.deepEqual([stopped, log], [true, []])
    assert.notEqual((await leases.records())[0]?.finishedMs, null)
  })
})

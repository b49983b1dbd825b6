/** The write-ahead log of a busy SQLite file is copied into the file beside the thread that writes. */
import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { createCheckpoints, ROWS_PER_CHECKPOINT } from '../../src/database/sqlite-checkpoints.js'
import { openSqliteFile, type SqliteDatabase } from '../../src/database/sqlite-driver.js'
import { readFileIdentity } from '../../src/database/sqlite-file.js'
import { atEnd } from '../support/at-end.js'
import { openTestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { watchThreads } from '../support/threads.js'
import { walSequence } from '../support/wal-sequence.js'

test('the log of a file that is written to all the time begins anew, again and again', async (t) => {
  const { writer, checkpoints, sequence } = await startWriter(t)
  for (let times = 1; times <= 3; times++) {
    const before = sequence()
    await eventually('the log begins anew', () => {
      for (let place = 0; place < 100; place++) write(writer)
      checkpoints.wrote(ROWS_PER_CHECKPOINT)
      return sequence() > before
    })
  }
})

test('few rows start no thread', async (t) => {
  const { checkpoints } = await startWriter(t)
  const started = watchThreads(t)
  checkpoints.wrote(ROWS_PER_CHECKPOINT - 1)

  assert.equal(started.length, 0)
})

test('a thread that crashes, or finds another file, says that it does not work, and is not started again', async (t) => {
  const { writer, checkpoints, path, reported } = await startWriter(t)
  const started = watchThreads(t)
  renameSync(path, `${path}.old`)
  checkpoints.wrote(ROWS_PER_CHECKPOINT)
  await eventually('it says so', () => reported.at(-1) === false)
  for (let place = 0; place < 3; place++) {
    write(writer)
    checkpoints.wrote(ROWS_PER_CHECKPOINT)
  }

  assert.equal(started.length, 1)
})

async function startWriter(t: TestContext) {
  const { url, close } = await openTestDatabase('sqlite')
  atEnd(t, close)
  const path = url.slice('file:'.length)
  const writer = openSqliteFile(path)
  atEnd(t, () => writer.close())
  writer.pragma('wal_autocheckpoint = 0')
  write(writer)
  const reported: boolean[] = []
  const checkpoints = createCheckpoints(
    { path, identity: readFileIdentity(path) },
    (isWorking) => void reported.push(isWorking),
  )
  atEnd(t, () => checkpoints.close())
  return {
    writer,
    checkpoints,
    path,
    reported,
    sequence: () => walSequence(path),
  }
}

let rows = 0

function write(writer: SqliteDatabase): void {
  writer.exec(`INSERT INTO rate_limit_staff_session VALUES ('id-${rows++}', 'account', 1)`)
}

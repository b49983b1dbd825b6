/** The temporary database of a demo, so that invented events are never among real ones. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorCode } from '../../src/ground/errors.js'

export interface DemoDatabase {
  readonly url: string
  remove(): Promise<void>
}

/** Creates the folder of the database, named after this process, and removes those of demos that were killed. */
export async function createDemoDatabase(): Promise<DemoDatabase> {
  await removeLeftFolders()
  const folder = await mkdtemp(join(tmpdir(), `ratelimit-demo-${process.pid}-`))
  return { url: `file:${join(folder, 'ratelimit.db')}`, remove: () => removeFolder(folder) }
}

async function removeLeftFolders(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, pid] = /^ratelimit-demo-(\d+)-/.exec(name) ?? []
    if (pid === undefined || isRunning(Number(pid))) continue
    // A folder of another user stays.
    await removeFolder(join(tmpdir(), name)).catch(() => undefined)
  }
}

function removeFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true })
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return errorCode(error) !== 'ESRCH'
  }
}

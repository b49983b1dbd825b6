import { setTimeout as delay } from 'node:timers/promises'

/** Waits, for `withinMs` at most, until something that happens in the background has happened. */
export async function eventually(
  what: string,
  happened: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  for (const deadlineMs = Date.now() + withinMs; !(await happened()); ) {
    if (Date.now() > deadlineMs) throw new Error(`It never happened: ${what}`)
    await delay(10)
  }
}

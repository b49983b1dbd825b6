/** Waits until all work has ended, also where some of it has failed: each is done then, or not. */
export async function allDone(work: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(work)
  await Promise.all(work)
}

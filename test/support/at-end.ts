import type { TestContext } from 'node:test'

type Work = () => unknown

const work = new WeakMap<TestContext, Work[]>()

/** Does something when a test has ended, what was asked for last first: an app closes before its database goes. */
export function atEnd(t: TestContext, undo: Work): void {
  const existing = work.get(t)
  if (existing !== undefined) {
    existing.push(undo)
    return
  }
  const stack = [undo]
  work.set(t, stack)
  t.after(async () => {
    const failures: unknown[] = []
    for (const each of stack.reverse()) {
      try {
        await each()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join('; '))
  })
}

/**
 * `setTimeout` for somebody who waits for an answer. It runs in two halves, with a look at what has arrived between them:
 * an event loop that was blocked is no outage.
 */
export function patientTimeout(run: () => void, ms: number): NodeJS.Timeout {
  let halves = 2
  const timer = setTimeout(() => {
    if (--halves > 0) timer.refresh()
    else run()
  }, ms / 2)
  return timer
}

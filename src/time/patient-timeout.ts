/**
 * Starts a timer for an answer. It runs in two halves, between which the event loop handles what has arrived: a blocked
 * event loop is no outage.
 */
export function patientTimeout(run: () => void, ms: number): NodeJS.Timeout {
  let halves = 2
  const timer = setTimeout(() => {
    if (--halves > 0) timer.refresh()
    else run()
  }, ms / 2)
  return timer
}

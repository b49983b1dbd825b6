/** The windows that a page offers, in days. */
const OFFERED_DAYS = [1, 7, 30, 90]

/** Returns the choice of windows, including the selected one. */
export function offeredWindows(selected: number) {
  const offered = [...new Set([...OFFERED_DAYS, selected])].toSorted((a, b) => a - b)
  return offered.map((days) => ({ days, label: duration(days), selected: days === selected }))
}

/** Formats `last 7 days`. */
export function windowName(days: number): string {
  return `last ${duration(days)}`
}

export function windowTitle(days: number): string {
  return `Last ${duration(days)}`
}

/** Formats `7 days before`: the window that a window is compared with. */
export function formatWindowBefore(days: number): string {
  return `${duration(days)} before`
}

function duration(days: number): string {
  return days === 1 ? '24 hours' : `${days} days`
}

/** Half of a surrogate pair at the end, as a cut leaves it. */
const HALF = /[\ud800-\udbff]$/

/** Returns a text as a message quotes it: of a longer one the beginning, which ends between two characters, and an ellipsis. */
export function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength).replace(HALF, '')}…`
}

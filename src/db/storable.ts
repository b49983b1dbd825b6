/** A text as a column holds it: no NUL, no half of a surrogate pair (PostgreSQL refuses both), and no longer. */
export function storable(text: string, maxLength: number): string {
  let stored = text
  if (stored.includes('\0')) stored = stored.replaceAll('\0', '')
  if (stored.length > maxLength) stored = stored.slice(0, maxLength)
  return stored.isWellFormed() ? stored : stored.toWellFormed()
}

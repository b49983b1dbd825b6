/** Returns a table with right-aligned columns, except the last one, which may be long. */
export function tableLines(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const all = [head, ...rows]
  const widths = head.slice(0, -1).map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)))
  return all.map(
    (row) =>
      `  ${row
        .map((cell, column) => cell.padStart(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}`,
  )
}

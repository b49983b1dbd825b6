/** Groups rows by a name. */
export function groupBy<Row, Name>(rows: readonly Row[], nameFor: (row: Row) => Name): Map<Name, Row[]> {
  const groups = new Map<Name, Row[]>()
  for (const row of rows) {
    const name = nameFor(row)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [row])
    else group.push(row)
  }
  return groups
}

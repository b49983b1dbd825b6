/** The columns of this package's tables are called as their fields, in snake_case. */
export function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * The columns as a statement selects them, by the names of their fields.
 *
 * @param row what the statement calls the row, where it reads more than one
 */
export function selectedColumns(fields: readonly string[], row?: string): string {
  const prefix = row === undefined ? '' : `${row}.`
  return fields.map((field) => `${prefix}${columnOf(field)} AS "${field}"`).join(', ')
}

/** Returns the column of a field: its name in snake_case. */
export function toColumn(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/**
 * Returns the columns for a SELECT, each under the name of its field.
 *
 * @param row the alias of the row, where the statement reads more than one
 */
export function selectedColumns(fields: readonly string[], row?: string): string {
  const prefix = row === undefined ? '' : `${row}.`
  return fields.map((field) => `${prefix}${toColumn(field)} AS "${field}"`).join(', ')
}

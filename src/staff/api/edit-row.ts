import type { FastifyRequest } from 'fastify'
import type { SqlValue, SqlWork } from '../../database/dialect.js'
import type { Parts } from '../../plugin/parts.js'
import type { Description, FieldTable, Values } from '../../rules/description.js'
import { changeRows } from '../../rules/table.js'
import { requireMatch } from './etag.js'
import { ConflictError, NotFoundError } from './problems.js'

/** A row that a request changes or deletes. */
export interface EditedRow<Table extends FieldTable, Identity extends keyof Table & string> {
  readonly description: Description<Table, Identity>
  /** The condition that finds the row by `value`, the parameter `$1`. */
  readonly where: string
  readonly value: SqlValue
  /** The message where there is no such row; without it the row is created. */
  readonly missing?: string
  /** The message where another row has the identity that the row would have. */
  readonly taken: string
}

/**
 * Changes or deletes a row. With `If-Match` it does so only as the row was read, whatever others write meanwhile.
 *
 * @param fields what to change; undefined deletes the row
 * @returns whether the row was created
 * @throws NotFoundError; ChangedError when `If-Match` is not the row's tag any more; ConflictError when raw SQL filled
 * the row with values that cannot be read, or another row has its identity
 */
export function editRow<Table extends FieldTable, Identity extends keyof Table & string>(
  request: FastifyRequest,
  { database, clock }: Pick<Parts, 'database' | 'clock'>,
  { description, where, value, missing, taken }: EditedRow<Table, Identity>,
  fields: Values | undefined,
): Promise<boolean> {
  return changeRows(database, description, clock.now(), function* (table): SqlWork<boolean> {
    const [row] = yield* table.find(where, [value])
    if (row === undefined && missing !== undefined) throw new NotFoundError(missing)
    const isLocked = requireMatch(request, row?.entry)
    if (row === undefined) {
      if ((yield* table.create(fields ?? {})) === undefined) throw new ConflictError(taken)
      return true
    }
    // A moment is named by the validation where the change would leave it, and can be mended.
    const isUnreadable = row.unreadable.some((name) => isLocked || description.fields[name]?.kind !== 'moment')
    if (isUnreadable && (isLocked || fields !== undefined)) {
      throw new ConflictError('The row has values that cannot be read: delete it without If-Match.')
    }
    if (fields === undefined) yield* table.delete('id = $1', [row.id])
    else if (!(yield* table.update(row, fields))) throw new ConflictError(taken)
    return false
  })
}

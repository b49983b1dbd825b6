import type { FastifyRequest } from 'fastify'
import { errorCode } from '../../ground/errors.js'
import { etagFor, requireMatch } from './etag.js'
import { ChangedError, ConflictError, NotFoundError } from './problems.js'

/** A row that a request changes or deletes. */
export interface EditedRow<Row> {
  find(): Promise<Row | undefined>
  /**
   * Writes the row by one statement, which finds it by its identity.
   *
   * @param seen all its fields, by which the statement finds it too; undefined where any state will do
   * @returns the number of written rows
   */
  write(seen: Row | undefined): Promise<number>
  /** What does not exist, for the error. */
  readonly missing: string
}

/**
 * Changes or deletes a row. With `If-Match` it does so only as the row was read, whatever others write meanwhile.
 *
 * @throws NotFoundError; ChangedError when `If-Match` is not the row's tag any more; ConflictError when raw SQL filled
 * the row with values that cannot be read
 */
export async function editRow<Row extends object>(
  request: FastifyRequest,
  { find, write, missing }: EditedRow<Row>,
): Promise<void> {
  const seen = await find()
  if (seen === undefined) throw new NotFoundError(missing)
  const isLocked = requireMatch(request, seen)
  if ((await readably(() => write(isLocked ? seen : undefined))) > 0) return
  if (!isLocked) throw new NotFoundError(missing)
  const last = await find()
  // A text in a column for booleans is read as true, but is found by no statement that looks for true.
  throw last !== undefined && etagFor(last) === etagFor(seen) ? unreadable() : new ChangedError()
}

/** Runs a write, and turns Prisma's complaint about the stored values of the row into a ConflictError. */
export async function readably<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    const isInvalid = error instanceof Error && error.name === 'PrismaClientValidationError'
    throw isInvalid || errorCode(error) === 'P2023' ? unreadable() : error
  }
}

/** Runs a write, and turns the complaint that another row has its name into a ConflictError. */
export async function unlessTaken<T>(message: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    throw errorCode(error) === 'P2002' ? new ConflictError(message) : error
  }
}

function unreadable(): Error {
  return new ConflictError('The row has values that cannot be read: delete it without If-Match.')
}

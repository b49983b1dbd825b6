/** Moments in addresses. */
import Type from 'typebox'
import { parseMoment } from '../../rules/moment.js'
import { parsedBy } from './entry-schemas.js'

/** The schema of a moment that an address may have. */
export const Moment = (description: string) =>
  Type.Optional(parsedBy(parseBound, Type.String({ format: 'date-time', description })))

/** Parses the beginning or the end of a period. */
export function parseBound(text: unknown): number | undefined {
  try {
    return text === undefined ? undefined : (parseMoment(text) ?? undefined)
  } catch {
    throw new Error('is not a valid moment: give one such as 2027-01-31T12:00:00Z, with each + as %2B in an address')
  }
}

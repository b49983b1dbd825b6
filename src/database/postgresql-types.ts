/** Reads values of PostgreSQL, whatever parsers the host gave the driver (`pg.types.setTypeParser`) for its own. */
import type pg from 'pg'

type DriverTypes = typeof pg.types

const asText = (text: string) => text

/** Returns the parsers of the types that this package's tables and statements have, as the driver has them by default. */
export function driverTypes({ builtins, getTypeParser }: DriverTypes): DriverTypes['getTypeParser'] {
  const parsers = new Map<number, (text: string) => unknown>([
    [builtins.BOOL, (text) => text === 't'],
    [builtins.INT2, Number],
    [builtins.INT4, Number],
    [builtins.FLOAT8, Number],
    [builtins.INT8, asText],
    [builtins.NUMERIC, asText],
    [builtins.TEXT, asText],
    [builtins.VARCHAR, asText],
  ])
  return (oid: number, format?: 'text' | 'binary') => parsers.get(oid) ?? getTypeParser(oid, format)
}

/** Returns the same for statements of this package. Counts and moments become numbers: whole, and far below 2^53. */
export function countsAndMoments(types: DriverTypes): DriverTypes['getTypeParser'] {
  const { INT8, NUMERIC, TIMESTAMPTZ } = types.builtins
  const parserFor = driverTypes(types)
  let lastText = ''
  let lastMs = Number.NaN
  /** Parses a moment once for consecutive rows that share it, as rows with the same end of a window do. */
  function parseMs(text: string): number {
    if (text !== lastText) {
      lastMs = toMs(text)
      lastText = text
    }
    return lastMs
  }
  return (oid: number, format?: 'text' | 'binary') => {
    if (oid === INT8 || oid === NUMERIC) return Number
    return oid === TIMESTAMPTZ ? parseMs : parserFor(oid, format)
  }
}

/** Returns a moment of a session whose time zone is UTC: `2026-11-25 16:56:12.837+00`, `infinity`. */
function toMs(text: string): number {
  if (text.endsWith('infinity')) return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  const [date = '', time = ''] = text.split(' ')
  const year = date.indexOf('-') === 4 ? date : `+${date.padStart(12, '0')}`
  return Date.parse(`${year}T${time}:00`)
}

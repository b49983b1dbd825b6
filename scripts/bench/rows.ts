import { InvalidArgumentError } from '@commander-js/extra-typings'
import { BARE_REFUSING_ROW, BARE_ROW } from './bare-rows.js'
import { OTHER_ROWS } from './other-rows.js'
import { OUR_REFUSING_ROWS, OUR_ROWS } from './our-rows.js'
import type { Row } from './row.js'
import { RULE_ROWS } from './rule-rows.js'

/** Every limiter counts per `x-client`, allows the same, and writes the `X-RateLimit-*` headers. */
export const ROWS: readonly Row[] = [
  BARE_ROW,
  ...OUR_ROWS,
  ...OTHER_ROWS,
  ...RULE_ROWS,
  BARE_REFUSING_ROW,
  ...OUR_REFUSING_ROWS,
]

/**
 * Returns the rows that `--only` names, in the order of `ROWS`: a word is the id of a row or a part of ids (`redis`).
 *
 * @throws InvalidArgumentError for a word that matches no row
 */
export function chooseRows(only: string): readonly Row[] {
  const words = only.split(',').map((word) => word.trim())
  const chosen = new Set(words.flatMap(rowsNamed))
  return ROWS.filter((row) => chosen.has(row))
}

function rowsNamed(word: string): readonly Row[] {
  const named = ROWS.filter(({ id }) => id === word)
  const rows = named.length > 0 ? named : ROWS.filter(({ id }) => `-${id}-`.includes(`-${word}-`))
  if (rows.length > 0) return rows
  const known = ROWS.map(({ id }) => id).join(', ')
  throw new InvalidArgumentError(`${JSON.stringify(word)} fits no row. Give ${known}, or a part of them.`)
}

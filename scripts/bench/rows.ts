import { didYouMean } from '../commands/support/suggest.js'
import { UsageError } from '../commands/support/usage-error.js'
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
 * The rows that `--only` names, in the order of `ROWS`: each word is the id of a row or a part of ids (`redis`).
 *
 * @throws UsageError for a word that fits no row
 */
export function chooseRows(only: string | undefined): readonly Row[] {
  if (only === undefined) return ROWS
  const words = only.split(',').map((word) => word.trim())
  const chosen = new Set(words.flatMap(rowsNamed))
  return ROWS.filter((row) => chosen.has(row))
}

function rowsNamed(word: string): readonly Row[] {
  const named = ROWS.filter(({ id }) => id === word)
  const rows = named.length > 0 ? named : ROWS.filter(({ id }) => `-${id}-`.includes(`-${word}-`))
  if (rows.length > 0) return rows
  const known = [...new Set(ROWS.flatMap(({ id }) => [id, ...id.split('-')]))]
  const hint = didYouMean(word, known) || `: give ${ROWS.map(({ id }) => id).join(', ')}, or a part of them`
  throw new UsageError(`--only is ${JSON.stringify(word)}${hint}`)
}

import { parseLength as parse } from '../../../src/limiter/rate.js'
import { UsageError } from './command.js'

/**
 * Parses the duration of an option, in milliseconds.
 *
 * @throws UsageError naming the option
 */
export function parseLength(option: string, text: string): number {
  const lengthMs = parse(text)
  if (lengthMs !== undefined) return lengthMs
  throw new UsageError(`${option} is ${JSON.stringify(text)}: give 30m, 2h or 7d, at most 366d`)
}

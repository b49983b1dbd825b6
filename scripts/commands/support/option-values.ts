import { parseLength as parseMs } from '../../../src/limiter/rate.js'
import { UsageError } from './command.js'
import { InvalidArgumentError } from './commander.js'

/**
 * Creates the parser of an option that takes an integer.
 *
 * @param counted what is counted, in the plural: `days`
 */
export function integer(counted: string, min: number, max: number): (value: string) => number {
  return (value) => {
    const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Give a whole number of ${counted}, ${min} to ${max}`)
  }
}

/**
 * Parses the duration of an option, in milliseconds.
 *
 * @throws UsageError naming the option
 */
export function parseLength(option: string, text: string): number {
  const lengthMs = parseMs(text)
  if (lengthMs !== undefined) return lengthMs
  throw new UsageError(`${option} is ${JSON.stringify(text)}: give 30m, 2h or 7d, at most 366d`)
}

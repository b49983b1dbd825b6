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

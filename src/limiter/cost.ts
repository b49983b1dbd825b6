/** The costs of checks, as settings have them. */
import { InvalidSettingError } from '../ground/errors.js'
import { shown } from '../ground/setting.js'
import { highestCost, parseRate } from './rate.js'

/** The most that one check takes of a limit. */
export const MAX_COST = 2_147_483_647
export const MAX_RESERVE = 2_147_483_647

export function isCost(cost: unknown): cost is number {
  return typeof cost === 'number' && Number.isInteger(cost) && cost >= 1 && cost <= MAX_COST
}

/** @throws InvalidSettingError for an invalid cost */
export function validateCost(setting: string, cost: unknown): number {
  if (isCost(cost)) return cost
  throw new InvalidSettingError(`Setting "${setting}" is ${String(cost)}: give an integer, 1 to ${MAX_COST}`)
}

/**
 * @param limited what the rate is called where it was given
 * @throws InvalidSettingError for a cost that the rate never allows
 */
export function validateCostUnder(setting: string, cost: number, limited: string, rate: string): void {
  const highest = highestCost(parseRate(rate))
  if (cost <= highest) return
  throw new InvalidSettingError(
    `Setting "${setting}" is ${cost}, more than "${limited}" ${JSON.stringify(rate)} ever allows: give at most ${highest}, or a rate with a higher count`,
  )
}

/** @throws InvalidSettingError for an invalid reserve */
export function validateReserve(setting: string, reserve: unknown): number {
  if (typeof reserve === 'number' && Number.isInteger(reserve) && reserve >= 0 && reserve <= MAX_RESERVE) return reserve
  throw new InvalidSettingError(`Setting "${setting}" is ${shown(reserve)}: give an integer, 0 to ${MAX_RESERVE}`)
}

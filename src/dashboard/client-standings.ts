/** Where a client stands now with each policy that it met. */
import type { ClientDetail } from '../analytics/client-detail.js'
import type { ExplainedLimit, ExplainOptions, Explanation } from '../http/explain.js'
import { trialFor } from './trials.js'

/** The most policies whose state is asked for: each is a call of the store. */
const MAX_ASKED = 8

/**
 * Asks, with the latest request of each policy, what the client has used of it. A policy is left out where no request
 * can be made up that it decides: one that depends on what the log does not have.
 */
export async function presentStandings(
  { client, by_policy, recent_events }: ClientDetail,
  explain: (options: ExplainOptions) => Promise<Explanation>,
): Promise<ReadonlyMap<string, ExplainedLimit>> {
  const trial = trialFor(client)
  if (trial === undefined) return new Map()
  const latest = by_policy
    .map(({ policy }) => recent_events.find((event) => event.policy === policy))
    .filter((event) => event !== undefined)
    .slice(0, MAX_ASKED)
  const explanations = await Promise.all(
    latest.map(async ({ method, path }) => {
      try {
        return await explain({ ...trial, method, path })
      } catch {
        // Other programs log requests that no server takes.
        return undefined
      }
    }),
  )
  const standings = new Map<string, ExplainedLimit>()
  for (const explanation of explanations) {
    for (const limit of explanation?.limits ?? []) {
      if (limit.applies && limit.count !== null) standings.set(limit.policy, limit)
    }
  }
  return standings
}

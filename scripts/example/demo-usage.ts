/** The tokens that customers of the demo's shop use of its assistant, a language model. */
import type { Database } from '../../src/database/database.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { insertUsageSql, usageValues } from '../../src/log/usage/usage-table.js'
import { createRandom } from '../random.js'
import { ASSISTANT_RULE, ASSISTANT_TRAFFIC } from './demo-story.js'

/** Days of usage, so that there is a month before the present one. */
const USAGE_DAYS = 60
const MOST_REQUESTS = 60

/** Returns the tokens of a question and its answer, as they come by themselves. */
export function tokensOfAnswer(random: () => number): number {
  return 150 + Math.floor(1_800 * random() ** 2)
}

/** Writes the usage of the days before that of the start. */
export async function writeDemoUsage(database: Database, startMs: number): Promise<void> {
  const random = createRandom(2)
  const { name: policy, unit } = ASSISTANT_RULE
  const rows = ASSISTANT_TRAFFIC.flatMap(({ user }) =>
    Array.from({ length: USAGE_DAYS }, (_, day) => {
      const requests = 1 + Math.floor(MOST_REQUESTS * random() ** 2)
      const amount = Array.from({ length: requests }, () => tokensOfAnswer(random)).reduce(
        (sum, tokens) => sum + tokens,
      )
      return usageValues({
        firstMs: startMs - (day + 1) * DAY_MS,
        client: `user:${user}`,
        unit,
        policy,
        amount,
        requests,
      })
    }),
  )
  await database.execute(insertUsageSql(database.dialect), [JSON.stringify(rows)])
}

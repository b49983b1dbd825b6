/**
 * A worker, which asks a limit without an app until it is refused.
 *
 *     node --import tsx limiter-worker.ts <options of createLimiter, JSON> <options of the limit, JSON> <client> <checks>
 *
 * It prints how many checks were allowed.
 */
import { createLimiter } from '../../src/limiter.js'

const [options = '', limitOptions = '', client = '', checks] = process.argv.slice(2)
const limiter = await createLimiter(JSON.parse(options))
const limit = limiter.limit(JSON.parse(limitOptions))
let allowed = 0
for (let asked = 0; asked < Number(checks); asked++) if ((await limit.consume(client)).allowed) allowed++
console.log(allowed)
await limiter.close()

import { InvalidSettingError } from '../../ground/errors.js'
import { type Consume, createConsume } from '../../http/consume.js'
import { createCountableRules } from '../../http/countable-rules.js'
import { createDescribedRequests } from '../../http/described-request.js'
import { after } from '../../http/host-function.js'
import type { HookDependencies } from '../../http/on-request.js'
import type { createSkip } from './decision.js'
import type { HookComponents } from './hook-components.js'
import type { Records } from './records.js'

/**
 * Creates what decides about requests that the app did not get.
 *
 * @throws InvalidSettingError where the limit without a rule counts what is known of no such request
 */
export function createAppConsume(
  { app, settings, addresses, router, current }: HookComponents,
  hook: HookDependencies,
  isSkipped: ReturnType<typeof createSkip>,
  { recordAtOnce }: Records,
): Consume {
  const { algorithm, counts } = settings.middleware
  const wrong = algorithm === 'concurrency' ? 'algorithm' : counts === null ? undefined : 'counts'
  if (wrong !== undefined) {
    throw new InvalidSettingError(
      `Setting "middleware.${wrong}" counts what ends elsewhere, which no check of a request knows: leave it out, and let rules count that in the app that answers`,
    )
  }
  const countable = createCountableRules(router)
  return createConsume({
    hook,
    log: app.log,
    isSkipped,
    address: addresses.parse,
    describe: createDescribedRequests(app, router),
    inForce: settings.useDynamicRules ? (nowMs, waitedMs) => after(current.at(nowMs, waitedMs), countable) : undefined,
    record: recordAtOnce,
  })
}

/** The preview of rules, and what this process knows about the log that it reads. */
import { countOf } from '../ground/number-text.js'
import { createdByFirstCall } from '../ground/remember.js'
import { createRoutedPath, type RouterOptions } from '../http/request-path.js'
import { newEntry } from '../limiter/stores/memory/memory-entry.js'
import type { EventLog } from '../log/event-log.js'
import type { Preview, PreviewDependencies } from '../reports/preview/preview.js'
import type { OpenDatabase } from './client/client.js'
import type { Settings } from './settings/resolve.js'

/** @param processNotes the gaps and notes that this process knows */
export function createRulePreview(
  { clock, privacy }: Settings,
  { database }: Pick<OpenDatabase, 'database'>,
  router: RouterOptions,
  processNotes: Pick<PreviewDependencies, 'gaps' | 'notes'>,
): Preview {
  return createdByFirstCall(async () => {
    const { createPreview } = await import('../reports/preview/preview.js')
    return createPreview({
      database,
      clock,
      router,
      privacy,
      requestPath: createRoutedPath(router),
      newCounter: (policy) => newEntry(policy),
      ...processNotes,
    })
  })
}

/** Returns why the log may lack requests. Losses of other processes, and of this one before it started, are unknown. */
export function findLogGaps({ logEvents }: Settings, events?: EventLog): string[] {
  const gaps: string[] = []
  if (logEvents === 'blocked') gaps.push("logEvents is 'blocked': requests within their limit are not in the log.")
  if (events !== undefined && logEvents === false) gaps.push('logEvents is false: this process logs no requests.')
  const { dropped = 0 } = events?.stats() ?? {}
  if (dropped > 0) gaps.push(`This process lost ${countOf(dropped, 'event')} since it started.`)
  return gaps
}

/** The settings of single routes, which the log does not show. */
export interface RouteSettings {
  /** The number of routes that have a cost. */
  readonly costs: number
  /** Whether single routes have limits. */
  readonly haveLimits: boolean
}

export function previewNotesFor(
  { useDynamicRules, privacy, middleware: { ceiling } }: Settings,
  { costs, haveLimits }: RouteSettings,
): string[] {
  const notes: string[] = []
  if (!useDynamicRules) notes.push('useDynamicRules is false: this app applies no rules.')
  if (ceiling !== undefined) {
    notes.push('middleware.ceiling refuses requests whatever the rule says: the preview does not take it into account.')
  }
  if (privacy?.addresses === 'truncated') {
    notes.push(
      "privacy.addresses is 'truncated': the log has networks, whose clients the preview counts together. It refuses more than the rule would.",
    )
  }
  if (haveLimits) {
    notes.push(
      'Limits of single routes refuse requests whatever the rule says: the preview does not take them into account.',
    )
  }
  if (costs > 0) {
    notes.push(
      `${countOf(costs, 'route has', 'routes have')} a cost that is not in the log: every request is replayed at the cost of the rule alone.`,
    )
  }
  return notes
}

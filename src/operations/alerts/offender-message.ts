/** The message about keys that were refused often. */
import { countOf } from '../../ground/number-text.js'
import { visible } from '../../ground/visible.js'
import type { Offender } from '../../reports/ranking.js'
import { clientLink, MAX_JSON_BYTES, MAX_LINES, type Message } from './channels/message.js'

/** What one message reports. */
export interface ReportedOffenders {
  /** The identity of the watch: the same in every run with the same recipients, threshold and window. */
  readonly watch: string
  readonly threshold: number
  readonly days: number
  /** The offenders to report, the most blocked first. */
  readonly offenders: readonly Offender[]
  /** Keys that were reported before, and are below the threshold again. */
  readonly resolved: readonly string[]
  /** The number of keys that were reported, now or before, and are not resolved. */
  readonly remaining: number
  /** The address of the dashboard; undefined where it is not known. */
  readonly publicUrl?: string | undefined
}

export function createOffenderMessage(reported: ReportedOffenders): Message {
  const { watch, threshold, days, offenders, resolved, remaining, publicUrl } = reported
  const link = (key: string) => (publicUrl === undefined ? undefined : clientLink(publicUrl, key, days))
  const shown = offenders.slice(0, MAX_LINES).map(({ key, blocked_count }) => ({ key: visible(key), blocked_count }))
  const over = resolved.slice(0, MAX_LINES).map(visible)
  const more = offenders.length - shown.length
  const isOver = offenders.length === 0
  return {
    id: watch,
    kind: isOver ? (remaining === 0 ? 'over' : 'less') : 'alarm',
    title: isOver ? `${resolved.length} offender(s) resolved` : `${offenders.length} offender(s) alert`,
    sentence: sentenceFor(reported),
    facts: shown.map(({ key, blocked_count }, index) => ({
      name: key,
      value: String(blocked_count),
      url: link(offenders[index]?.key ?? ''),
    })),
    more,
    columns: ['Key', 'Refused'],
    over,
    moreOver: resolved.length - over.length,
    links: [],
    footnote: `Window: the last ${countOf(days, 'day')}. Threshold: ${countOf(threshold, 'refused request')}.`,
    publicUrl,
    json: fittingJson(reported, link),
    details: { threshold, days, offenders: shown, omitted: more, resolved: over },
  }
}

/** Returns a sentence that counts keys. One attack may have several, so it then says what a key is. */
function sentenceFor({ offenders, resolved, threshold, days }: ReportedOffenders): string {
  const window = `${threshold} times or more in ${countOf(days, 'day')}`
  if (offenders.length === 0) {
    return `${countOf(resolved.length, 'key is', 'keys are')} no longer refused ${window}.`
  }
  const sentence = `${countOf(offenders.length, 'key was', 'keys were')} refused ${window}.`
  return offenders.length > 1 ? `${sentence} A client has a key for each rule that refused it.` : sentence
}

/** Returns the documented JSON, cut from the end until it is small enough. `resolved` is present where a key is. */
function fittingJson(
  { threshold, days, offenders, resolved }: ReportedOffenders,
  link: (key: string) => string | undefined,
): object {
  // Leaves room for everything except the two lists.
  let left = MAX_JSON_BYTES - 200
  function fitting<Entry, Shown>(entries: readonly Entry[], show: (entry: Entry) => Shown): Shown[] {
    const shown: Shown[] = []
    for (const entry of entries) {
      const next = show(entry)
      left -= Buffer.byteLength(JSON.stringify(next)) + 1
      if (left < 0) break
      shown.push(next)
    }
    return shown
  }
  const shown = fitting(offenders, (offender) => {
    const url = link(offender.key)
    return { ...offender, ...(url !== undefined && { url }) }
  })
  const silent = fitting(resolved, (key) => key)
  return {
    threshold,
    days,
    offenders: shown,
    ...(shown.length < offenders.length && { omitted: offenders.length - shown.length }),
    ...(resolved.length > 0 && { resolved: silent }),
    ...(silent.length < resolved.length && { resolved_omitted: resolved.length - silent.length }),
  }
}

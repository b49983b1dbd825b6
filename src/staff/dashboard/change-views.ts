import { DAY_MS } from '../../ground/time/clock.js'
import { allRequests } from '../../reports/breakdown.js'
import type { ChangeEffect, RecentChange } from '../../reports/change-effects.js'
import { changeHref } from './changes/changes-page.js'
import type { MarkedChange } from './chart.js'
import { duration, formatCount, type Moment, toMoment, visible } from './format.js'

const ACTIONS: Readonly<Record<RecentChange['action'], string>> = {
  create: 'created',
  update: 'changed',
  delete: 'deleted',
}

/** A row of the list of changes, and a mark of the chart. */
export interface ChangeView extends MarkedChange, Moment {
  /** `Rule login changed`. */
  readonly what: string
  /** The actor; empty where it is not known. */
  readonly actor: string
}

/** Returns the changes of a window, the newest first. */
export function changeViews(changes: readonly RecentChange[]): ChangeView[] {
  return changes.map(({ id, at_ms, entity, name, action, actor }) => {
    const what = `${entity === 'rule' ? 'Rule' : 'Override'} ${visible(name)} ${ACTIONS[action]}`
    const moment = toMoment(at_ms)
    return {
      at_ms,
      ...moment,
      what,
      actor: visible(actor),
      text: `${moment.time} UTC: ${what}${actor === '' ? '' : ` by ${visible(actor)}`}`,
      href: changeHref(id),
    }
  })
}

/** The effect of a change, in equal times before and after it. */
export interface EffectView extends Moment {
  /** The rule, or the client of the override. */
  readonly name: string
  readonly what: string
  readonly length: string
  readonly before: string
  readonly after: string
}

/** Returns the effects of changes that concerned any requests. */
export function effectViews(effects: readonly ChangeEffect[]): EffectView[] {
  const counting = effects.filter(({ before, after }) => allRequests(before) + allRequests(after) > 0)
  return counting.map(({ change, length_ms, before, after }) => ({
    name: change.name,
    ...toMoment(change.at_ms),
    what: ACTIONS[change.action],
    length: duration(length_ms / DAY_MS),
    before: counted(before),
    after: counted(after),
  }))
}

/** Formats `12 of 300 refused, 7 denied`. */
function counted(counts: ChangeEffect['before']): string {
  const { blocked, would_block, denied } = counts
  const would = would_block === 0 ? '' : `, ${formatCount(would_block)} would be refused`
  const refused = denied === 0 ? '' : `, ${formatCount(denied)} denied`
  return `${formatCount(blocked)} of ${formatCount(allRequests(counts))} refused${would}${refused}`
}

/** Says what became of a change, what Revert would do, and what it did. */
import { POLICY_SCOPE } from '../../../reports/incidents/incident.js'
import type { Change } from '../../../rules/history/history.js'
import type { Standing } from '../../../rules/history/standing.js'
import { formatCount, formatTime, visible } from '../format.js'
import { describeChange, formerValue, overrideNoun } from './change-sentence.js'

/** Says what became of a change; empty where its sentence says it all. */
export function standingWords({ entity, action }: Change, standing: Standing | undefined, nowMs: number): string {
  if (standing === undefined || (entity === 'incident' && standing.state === 'stands')) return ''
  if (action === 'delete') return standing.state === 'stands' ? '' : 'created again since'
  if (standing.state === 'changed') return 'changed again since'
  if (standing.state === 'gone') return entity === 'rule' ? 'deleted since' : 'ended'
  const { expiresAt, endsAt, isActive } = standing.entry ?? {}
  const endMs = Date.parse(String(expiresAt ?? endsAt ?? ''))
  if (endMs <= nowMs) return 'ended'
  if (isActive === false) return 'still so'
  return Number.isNaN(endMs) ? 'in force' : `in force until ${formatTime(endMs)} UTC`
}

/** Says what Revert would do, on its button. */
export function revertText(change: Change, count: number): string {
  if (count > 1) return `Revert all ${formatCount(count)}`
  const { entity, action, before, after } = change
  if (entity === 'incident') return `Revert: ${after?.ignored === true ? 'watches it again' : 'ignores it again'}`
  const what = entity === 'rule' ? 'rule' : overrideNoun(before ?? after)
  if (action === 'create') return `Revert: ${entity === 'rule' ? 'deletes' : 'ends'} the ${what}`
  if (action === 'delete') return `Revert: restores the ${what}`
  const { fields } = describeChange(change)
  const [only] = fields
  if (only?.name === 'isActive' && fields.length === 1) return `Revert: switches it ${before?.isActive ? 'on' : 'off'}`
  return fields.length === 1 && only !== undefined
    ? `Revert: ${formerValue(only, 'back')}`
    : 'Revert: restores the fields'
}

/** Says what a revert did. */
export function revertedWords(change: Change, count: number): string {
  if (count > 1) return `${formatCount(count)} changes were reverted.`
  const { entity, name, action, before, after } = change
  if (entity === 'incident') {
    const subject = name.startsWith(POLICY_SCOPE) ? `the policy ${name.slice(POLICY_SCOPE.length)}` : name
    return `The incident of ${visible(subject)} is ${after?.ignored === true ? 'watched' : 'ignored'} again.`
  }
  const what = entity === 'rule' ? `rule ${visible(name)}` : `${overrideNoun(before ?? after)} of ${visible(name)}`
  if (action === 'create') return `The ${what} ${entity === 'rule' ? 'was deleted' : 'has ended'}.`
  if (action === 'delete') return `The ${what} was restored.`
  const { fields } = describeChange(change)
  const [only] = fields
  if (only?.name === 'isActive' && fields.length === 1)
    return `The ${what} is switched ${before?.isActive ? 'on' : 'off'} again.`
  return fields.length === 1 && only !== undefined
    ? `The ${what} has ${formerValue(only, 'again')}.`
    : `The ${what} has its former fields again.`
}

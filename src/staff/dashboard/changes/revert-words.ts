/** Says what became of a change, what Revert would do, and what it did. */
import type { Change } from '../../../rules/history/history.js'
import type { Standing } from '../../../rules/history/standing.js'
import { formatCount, formatTime, visible } from '../format.js'
import { cut, describeChange, incidentNoun, overrideNoun } from './change-sentence.js'

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
  return count > 1 ? `Revert all ${formatCount(count)}` : `Revert: ${revertWords(change)[0]}`
}

/** Says what a revert did. */
export function revertedWords(change: Change, count: number): string {
  return count > 1 ? `${formatCount(count)} changes were reverted.` : `The ${revertWords(change)[1]}.`
}

function revertWords(change: Change): [would: string, did: string] {
  const { entity, name, action, before, after } = change
  if (entity === 'incident') {
    const [again, done] = after?.ignored === true ? ['watches', 'watched'] : ['ignores', 'ignored']
    return [`${again} it again`, `${incidentNoun(name)} is ${done} again`]
  }
  const isRule = entity === 'rule'
  const noun = isRule ? entity : overrideNoun(before ?? after)
  const row = `${noun}${isRule ? '' : ' of'} ${visible(name)}`
  if (action === 'create')
    return [`${isRule ? 'deletes' : 'ends'} the ${noun}`, `${row} ${isRule ? 'was deleted' : 'has ended'}`]
  if (action === 'delete') return [`restores the ${noun}`, `${row} was restored`]
  const [field, ...others] = describeChange(change).fields
  if (field === undefined || others.length > 0) return ['restores the fields', `${row} has its former fields again`]
  const state = before?.isActive ? 'on' : 'off'
  if (field.name === 'isActive') return [`switches it ${state}`, `${row} is switched ${state} again`]
  const value = cut(field.before)
  return [`${field.noun} back to ${value}`, `${row} has the ${field.noun} ${value} again`]
}

/** Shows by what a logged request was decided, as that was then, beside how it is now. */
import type { ListedEvent } from '../../reports/listed-events.js'
import type { NamedPolicyThen, PolicyThen } from '../../reports/policy-then.js'
import type { EntryThen } from '../../rules/history/entry-then.js'
import { describeChange } from './changes/change-sentence.js'
import { changeHref, changesHref, SOURCES } from './changes/changes-page.js'
import { formatCount, toMoment, visible } from './format.js'
import { actorWords } from './override-words.js'

/** The most changes since then that the page lists; a link leads to all. */
const MAX_CHANGES = 10

/** Returns the context of `policy-then.hbs`. */
export function thenView(event: ListedEvent, { policy, isRefused, state }: NamedPolicyThen) {
  const beside = isRefused === undefined ? {} : { beside: besideSentence(policy, isRefused) }
  return { ...beside, ...policyView(event, policy, state) }
}

/** Says what a rule did beside the policy that decided. */
function besideSentence(policy: string, isRefused: boolean): string {
  return `Rule ${visible(policy)} applied too, and ${isRefused ? 'refused the request as well' : 'let the request through'}.`
}

function policyView(event: ListedEvent, name: string, policy: PolicyThen) {
  if (policy.kind === 'code') {
    return {
      text: `${visible(name)} is a limit in the app’s code, whose changes are not in the history. It is listed below as it is now.`,
    }
  }
  if (policy.kind === 'unknown') {
    const what = policy.entity === 'rule' ? `rule ${visible(name)}` : `an override for ${visible(event.client)}`
    return {
      text: policy.hasHistory
        ? `The history has no ${what.replace(/^an /, '')} that was in force at that time: clocks may differ, or raw SQL wrote it before the history began.`
        : `The history has nothing about ${what}: it was written before the history began.`,
    }
  }
  return entryView(event, policy)
}

function entryView(event: ListedEvent, { entity, fields, now, since, hasLimit }: EntryThen & { hasLimit: boolean }) {
  const name = String((entity === 'rule' ? fields.name : fields.client) ?? '')
  const what = `${entity === 'rule' ? 'Rule' : 'Override for'} ${visible(name)}`
  return {
    title: `${what}, as it was then`,
    state:
      now === null ? 'It has been deleted since.' : since.length === 0 ? 'It has not been changed since.' : undefined,
    differs: hasLimit
      ? undefined
      : `The log has a limit of ${formatCount(event.limit)}, which differs from this rate: the server did not have the latest change yet, or had it earlier than its clock says.`,
    has_now: now !== null && since.length > 0,
    fields: fieldRows(entity, name, fields, now),
    changes: since.slice(-MAX_CHANGES).map((change) => ({
      ...toMoment(change.changedAt.getTime()),
      who: actorWords(change.actor, 'subject'),
      source: SOURCES[change.source],
      sentence: describeChange(change).sentence,
      href: changeHref(change.id),
    })),
    more: since.length > MAX_CHANGES ? `The latest ${MAX_CHANGES} of ${formatCount(since.length)} changes.` : undefined,
    changes_href: changesHref(entity, name),
  }
}

/** Returns the fields that were not the default then, or differ now, in their order. */
function fieldRows(entity: EntryThen['entity'], name: string, then: EntryThen['fields'], now: EntryThen['now']) {
  const described = { entity, name }
  const before = describeChange({ ...described, action: 'create', before: null, after: then }).fields
  const different =
    now === null ? [] : describeChange({ ...described, action: 'update', before: then, after: now }).fields
  const titles = new Map([...before, ...different].map((field) => [field.name, field.title]))
  return [...titles].map(([fieldName, title]) => {
    const change = different.find((field) => field.name === fieldName)
    const was = change?.before ?? before.find((field) => field.name === fieldName)?.after ?? ''
    return { title, was, is: change?.after ?? was, is_changed: change !== undefined }
  })
}

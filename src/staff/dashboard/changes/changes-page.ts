import { POLICY_SCOPE } from '../../../reports/incidents/incident.js'
import { CHANGE_SOURCES, type ChangeSource } from '../../../rules/history/actor.js'
import type { Change } from '../../../rules/history/history.js'
import type { Standing } from '../../../rules/history/standing.js'
import type { Notice } from '../../shell/notice-cookie.js'
import { toMoment, visible } from '../format.js'
import { clientHref, dashboardHref, ruleHref } from '../links.js'
import { actorWords } from '../override-words.js'
import { describeChange } from './change-sentence.js'
import { revertText, standingWords } from './revert-words.js'

export const CHANGES_PAGE = 'changes.html'

/** The filter of the page, as typed; empty texts filter nothing. */
export interface ChangeFilter {
  readonly entity: string
  readonly name: string
  readonly actor: string
  readonly source: string
  readonly since: string
  readonly until: string
}

export const FILTER_FIELDS = ['entity', 'name', 'actor', 'source', 'since', 'until'] as const

interface ChangesView {
  /** The changes of one page, the newest first. */
  readonly changes: readonly Change[]
  readonly standings: ReadonlyMap<number, Standing>
  /** How many changes the actions made. */
  readonly counts: ReadonlyMap<string, number>
  readonly hasOlder: boolean
  readonly isLatest: boolean
  readonly filter: ChangeFilter
  /** A sentence about a filter that has no meaning. */
  readonly problem: string | undefined
  /** The token of the forms; undefined for those who may revert nothing. */
  readonly token: string | undefined
  readonly mayRevert: (change: Change) => boolean
  /** The forms of a new rule and a new override; undefined for those who may write none. */
  readonly newRuleHref: string | undefined
  readonly newOverrideHref: string | undefined
  readonly result: Notice | undefined
  readonly nowMs: number
}

/** The days of the window of the page that a change leads to. */
const DAYS = 7
const ENTITIES = { rule: 'Rules', override: 'Overrides and bans', incident: 'Incidents' } as const
/** The source of a change, after "from". */
export const SOURCES: Readonly<Record<ChangeSource, string>> = {
  client: 'the app’s code',
  sql: 'SQL',
  panel: 'the panel',
  dashboard: 'the dashboard',
  api: 'the API',
  ban: 'a ban',
  import: 'an import',
}

/** Returns the address of the changes of a rule, or of a client's overrides, under all names that it ever had. */
export function changesHref(entity: Change['entity'], name: string): string {
  return `${CHANGES_PAGE}?${new URLSearchParams({ entity, name })}`
}

/** Returns the address of the page that begins with a change. */
export function changeHref(id: number): string {
  return `${CHANGES_PAGE}?before=${id + 1}#change-${id}`
}

/** Returns the context of `changes-page.hbs`. */
export function changesContext(view: ChangesView) {
  const { changes, filter, token, mayRevert, nowMs } = view
  const kept = filterEntries(filter).map(([name, value]) => ({ name, value }))
  const oldest = changes.at(-1)
  return {
    page: {
      title: 'Changes',
      subtitle: 'Rate limits',
      result: view.result,
      problem: view.problem === undefined ? undefined : visible(view.problem),
      filter,
      is_filtered: kept.length > 0,
      kept,
      entities: options(ENTITIES, filter.entity),
      sources: options(Object.fromEntries(CHANGE_SOURCES.map((source) => [source, SOURCES[source]])), filter.source),
      token,
      new_rule_href: view.newRuleHref,
      new_override_href: view.newOverrideHref,
      changes: groupByAction(changes).map(([first, ...others]) => ({
        ...changeRow(first, {
          mayRevert: mayRevert(first) && [first, ...others].every(({ id }) => canRevert(view.standings.get(id))),
          standing: view.standings.get(first.id),
          nowMs,
          count: view.counts.get(first.actionId),
        }),
        // One button reverts them all.
        others: others.map((change) =>
          changeRow(change, { mayRevert: false, standing: view.standings.get(change.id), nowMs }),
        ),
      })),
      latest_href: view.isLatest ? undefined : filteredHref(filter),
      older_href: view.hasOlder && oldest !== undefined ? filteredHref(filter, oldest.id) : undefined,
      now: toMoment(nowMs),
    },
  }
}

/**
 * Returns the address of the changes that a filter finds.
 *
 * @param beforeId the id of a change, for those that are older
 */
export function filteredHref(filter: ChangeFilter, beforeId?: number): string {
  const before: [string, string][] = beforeId === undefined ? [] : [['before', String(beforeId)]]
  const address = new URLSearchParams([...filterEntries(filter), ...before]).toString()
  return address === '' ? CHANGES_PAGE : `${CHANGES_PAGE}?${address}`
}

function filterEntries(filter: ChangeFilter): [name: string, value: string][] {
  return FILTER_FIELDS.flatMap((name): [string, string][] => (filter[name] === '' ? [] : [[name, filter[name]]]))
}

function options(labels: Readonly<Record<string, string>>, selected: string) {
  return Object.entries(labels).map(([value, label]) => ({ value, label, selected: value === selected }))
}

/** Returns the changes in groups: those of one action that follow each other. */
function groupByAction(changes: readonly Change[]): [Change, ...Change[]][] {
  const groups: [Change, ...Change[]][] = []
  for (const change of changes) {
    const last = groups.at(-1)
    if (last !== undefined && change.actionId !== '' && last[0].actionId === change.actionId) last.push(change)
    else groups.push([change])
  }
  return groups
}

/** Returns the page of what a change is of. */
function hrefOf({ entity, name }: Change): string {
  if (entity === 'rule') return ruleHref(name)
  // Not every policy is a rule.
  return entity === 'incident' && name.startsWith(POLICY_SCOPE)
    ? dashboardHref({ days: DAYS }, { rule: name.slice(POLICY_SCOPE.length) })
    : clientHref(name, { days: DAYS })
}

/** Returns whether Revert would not fail, as far as what became of a change says. */
export function canRevert(standing: Standing | undefined): boolean {
  return standing?.state === 'stands'
}

interface RowView {
  readonly mayRevert: boolean
  readonly standing: Standing | undefined
  readonly nowMs: number
  /** The number of changes of its action, which are reverted together; 1 unless given. */
  readonly count?: number | undefined
}

/** Returns a change as `change-list.hbs` shows it. */
export function changeRow(change: Change, { mayRevert, standing, nowMs, count = 1 }: RowView) {
  const { id, changedAt, actor, source, entity, name, action } = change
  const { sentence, fields } = describeChange(change)
  const isOneField = action === 'update' && fields.length === 1
  return {
    id,
    ...toMoment(changedAt.getTime()),
    // Where nobody is named, the source is all that is known.
    who: actor === '' ? capitalized(SOURCES[source]) : actorWords(actor, 'subject'),
    source: actor === '' ? undefined : SOURCES[source],
    standing: standingWords(change, standing, nowMs),
    name: visible(name),
    href: hrefOf(change),
    changes_href: changesHref(entity, name),
    sentence,
    // A sentence about one field has said it all, unless it had to cut the values.
    fields: isOneField && !sentence.includes('…') ? [] : fields,
    is_update: action === 'update',
    may_revert: mayRevert,
    revert_text: revertText(change, count),
  }
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

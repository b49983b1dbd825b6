/** The actions on rules in their list, without their forms: switching, deleting and ordering them. */
import type { Database } from '../../../database/database.js'
import { runStatement, type SqlWork } from '../../../database/dialect.js'
import { Parameters } from '../../../database/list.js'
import { errorMessage } from '../../../ground/errors.js'
import { shortened } from '../../../ground/shortened.js'
import type { RuleActivity } from '../../../reports/rule-traffic.js'
import { RULES } from '../../../rules/rule.js'
import { changeRows } from '../../../rules/table.js'
import type { Notice } from '../../shell/notice-cookie.js'
import { formatCount, visible } from '../format.js'
import { listedSql, type RuleListing } from './list-rules.js'
import { countRules } from './rules-page.js'

export type BulkAction = 'enable' | 'disable' | 'delete'

/** The rules of a bulk: those that are ticked, or all that a list found when it was shown. */
export type ChosenRules =
  | { readonly ids: readonly number[] }
  | { readonly listing: RuleListing; readonly shown: number }

interface ChosenRule {
  readonly id: number
  readonly name: string
  readonly isActive: boolean | number
}

const DONE: Readonly<Record<BulkAction, string>> = { enable: 'enabled', disable: 'disabled', delete: 'deleted' }
/** The most names: more make no sentence. */
const MAX_NAMES = 5
const MAX_NAME_LENGTH = 40

/** Switches or deletes rules in one transaction, after which this process obeys. */
export function actOnRules(
  database: Database,
  action: BulkAction,
  chosen: ChosenRules,
  { today }: Pick<RuleActivity, 'today'>,
  nowMs: number,
): Promise<Notice> {
  const { dialect } = database
  return changeRows(database, RULES, nowMs, function* (table): SqlWork<Notice> {
    const rules = yield* choose()
    if ('shown' in chosen && rules.length !== chosen.shown) {
      return failed(
        `the list now has ${countRules(rules.length)}, not ${formatCount(chosen.shown)}. Check the list again.`,
      )
    }
    const isActive = action === 'enable'
    const due = action === 'delete' ? rules : rules.filter((rule) => Boolean(rule.isActive) !== isActive)
    const ids = due.map(({ id }) => id)
    if (action !== 'delete') yield* table.setFields(ids, { isActive })
    else if (ids.length > 0) yield* table.delete(dialect.isOneOf('id', '$1', 'bigint'), [JSON.stringify(ids)])
    const missing = 'ids' in chosen ? chosen.ids.length - rules.length : 0
    const hits = action === 'disable' ? due.reduce((sum, { name }) => sum + (today.get(name)?.total ?? 0), 0) : 0
    const notice = describe(action, due, rules.length - due.length, missing)
    return hits === 0 ? notice : { ...notice, text: `${notice.text} ${matchedWords(due.length, hits)}` }
  })

  function choose(): SqlWork<ChosenRule[]> {
    const parameters = new Parameters()
    const condition =
      'ids' in chosen
        ? dialect.isOneOf('id', parameters.add(JSON.stringify(chosen.ids)), 'bigint')
        : listedSql(dialect, chosen.listing, parameters, nowMs)
    return runStatement<ChosenRule>(
      `SELECT id, name, is_active AS "isActive" FROM ${dialect.table(RULES.table)} WHERE ${condition}
       ORDER BY ${RULES.order(dialect)}`,
      parameters.values,
    )
  }
}

function matchedWords(rules: number, hits: number): string {
  const requests = hits === 1 ? '1 request' : `${formatCount(hits)} requests`
  return `${rules === 1 ? 'It' : 'They'} matched ${requests} in the last day.`
}

function describe(action: BulkAction, due: readonly ChosenRule[], before: number, missing: number): Notice {
  const was = (count: number) => `${countRules(count)} ${count === 1 ? 'was' : 'were'}`
  const gone = missing === 0 ? '' : ` ${was(missing)} deleted before.`
  if (due.length === 0) {
    return failed(before === 0 ? `the rules no longer exist.` : `${was(before)} ${DONE[action]} before.${gone}`)
  }
  const already = before === 0 ? '' : ` ${was(before)} ${DONE[action]} before.`
  const text =
    due.length === 1
      ? `The rule ${namesOf(due)} was ${DONE[action]}.`
      : `${was(due.length)} ${DONE[action]}: ${namesOf(due)}.`
  return { succeeded: true, text: `${text}${already}${gone}`, typed: {} }
}

function failed(reason: string): Notice {
  return { succeeded: false, text: `Nothing was changed: ${reason}`, typed: {} }
}

function namesOf(rules: readonly ChosenRule[]): string {
  const names = rules.slice(0, MAX_NAMES).map(({ name }) => shortName(String(name)))
  const rest = rules.length - names.length
  return `${names.join(', ')}${rest > 0 ? ` and ${formatCount(rest)} more` : ''}`
}

function shortName(name: string): string {
  return visible(shortened(name, MAX_NAME_LENGTH))
}

/** A priority that was typed beside a rule, and the one that the page showed. */
export interface PriorityChange {
  readonly id: number
  readonly priority: unknown
  readonly was: string
}

/**
 * Sets priorities in one transaction, all or none.
 *
 * @returns the sentence, or a message for every row that is wrong, or was changed meanwhile
 */
export function setPriorities(
  database: Database,
  changes: readonly PriorityChange[],
  nowMs: number,
): Promise<Notice | ReadonlyMap<number, string>> {
  const { dialect } = database
  return changeRows(database, RULES, nowMs, function* (table) {
    const stored = yield* runStatement<{ id: number; name: string; priority: number }>(
      `SELECT id, name, priority FROM ${dialect.table(RULES.table)} WHERE ${dialect.isOneOf('id', '$1', 'bigint')}`,
      [JSON.stringify(changes.map(({ id }) => id))],
    )
    const byId = new Map(stored.map((rule) => [rule.id, rule]))
    const problems = new Map<number, string>()
    for (const { id, priority, was } of changes) {
      const problem = findProblem(priority)
      const present = byId.get(id)
      if (problem !== undefined) problems.set(id, problem)
      else if (present !== undefined && String(present.priority) !== was) {
        problems.set(id, `It was changed to ${present.priority} in the meantime: save again to replace that.`)
      }
    }
    if (problems.size > 0) return problems
    const present = changes.filter(({ id }) => byId.has(id))
    for (const priority of new Set(present.map((change) => change.priority))) {
      const ids = present.flatMap((change) => (change.priority === priority ? [change.id] : []))
      yield* table.setFields(ids, { priority })
    }
    const missing = changes.length - present.length
    const gone = missing === 0 ? '' : ` ${countRules(missing)} ${missing === 1 ? 'was' : 'were'} deleted before.`
    if (present.length === 0) return failed(missing === 0 ? 'no priority differs.' : gone.trim())
    const words = present.slice(0, MAX_NAMES).map(({ id, was, priority }) => {
      return `${shortName(String(byId.get(id)?.name))} from ${was} to ${String(priority)}`
    })
    const rest = present.length - words.length
    const more = rest > 0 ? ` and ${formatCount(rest)} more` : ''
    const what = present.length === 1 ? 'Priority changed' : 'Priorities changed'
    return { succeeded: true, text: `${what}: ${words.join(', ')}${more}.${gone}`, typed: {} }
  })
}

function findProblem(priority: unknown): string | undefined {
  try {
    RULES.fields.priority.parse(priority)
    return undefined
  } catch (error) {
    return `It ${errorMessage(error)}.`
  }
}

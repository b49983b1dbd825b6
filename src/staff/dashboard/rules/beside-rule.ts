/** The parts of the page of a rule beside its fields: its switch, for those who may do no more, and its history. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Database } from '../../../database/database.js'
import { type Clock, DAY_MS } from '../../../ground/time/clock.js'
import { type Change, countOfActions, listChanges } from '../../../rules/history/history.js'
import { readStandings } from '../../../rules/history/standing.js'
import type { IdentifiedEntry } from '../../../rules/read-entries.js'
import type { RULE_FIELDS } from '../../../rules/rule-fields.js'
import { takeNotice } from '../../shell/notice-cookie.js'
import { revertRight } from '../../shell/revert-right.js'
import { issueFormToken } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith } from '../../shell/staff-member.js'
import { canRevert, changeRow } from '../changes/changes-page.js'
import { toMoment, visible } from '../format.js'
import { isLess } from '../generous-rate.js'

/** The number of changes that are shown: each leads to the page of all of them. */
const MAX_CHANGES = 10

/** Returns the address of a rule's page, which its notices are about. */
export function rulePage(id: number): string {
  return `rule.html?id=${id}`
}

/** Creates the function that returns what the page of a stored rule shows beside its fields. */
export function besideRule(database: Database, clock: Clock) {
  return async function readBeside(
    request: FastifyRequest,
    reply: FastifyReply,
    { id, entry }: IdentifiedEntry<typeof RULE_FIELDS>,
  ) {
    const name = String(entry.name)
    const changes = await fromDatabase(listChanges(database, name, { entity: 'rule', limit: MAX_CHANGES }))
    const standings = await fromDatabase(readStandings(database, changes))
    const counts = await fromDatabase(countOfActions(database, changes))
    const mayWrite = actorWith(request, 'writeRules') !== undefined
    const mayRevert = (change: Change) =>
      actorWith(request, revertRight(change)) !== undefined && canRevert(standings.get(change.id))
    return {
      result: takeNotice(request, reply, rulePage(id)),
      lowered: lowered(changes, entry.rate, mayRevert, clock.now()),
      switch: mayWrite ? undefined : switchForm(request, reply, id, entry.isActive),
      changes: changes.map((change) => {
        const standing = standings.get(change.id)
        return changeRow(change, {
          mayRevert: mayRevert(change),
          standing,
          nowMs: clock.now(),
          count: counts.get(change.actionId),
        })
      }),
      // Reverting a change leads to the page of all of them.
      kept: Object.entries({ entity: 'rule', name }).map(([field, value]) => ({ name: field, value })),
    }
  }
}

/** Returns the edit of the last day that lowered the present rate; undefined where there was none. */
function lowered(changes: readonly Change[], rate: unknown, mayRevert: (change: Change) => boolean, nowMs: number) {
  const edit = changes.find(({ before, after }) => before !== null && after !== null && before.rate !== after.rate)
  if (edit === undefined || edit.after?.rate !== rate || edit.changedAt.getTime() < nowMs - DAY_MS) return undefined
  const before = String(edit.before?.rate)
  if (!isLess(String(rate), before)) return undefined
  return {
    id: edit.id,
    rate: visible(before),
    who: edit.actor === '' ? 'somebody' : visible(edit.actor),
    ...toMoment(edit.changedAt.getTime()),
    may_revert: mayRevert(edit),
  }
}

function switchForm(request: FastifyRequest, reply: FastifyReply, id: number, isActive: boolean) {
  const actor = actorWith(request, 'switchRules')
  if (actor === undefined) return undefined
  return {
    id,
    token: issueFormToken(request, reply, actor),
    button: isActive ? 'off' : 'on',
    text: isActive ? 'Disable' : 'Enable',
  }
}

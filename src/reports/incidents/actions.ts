/** Reads what operators did about incidents. */
import { overrideClientsFor } from '../../clients/client-networks.js'
import { Parameters } from '../../database/list.js'
import { rememberClients } from '../../ground/remember.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { hasRefused, POLICY } from '../../log/event-sql.js'
import type { Change, ChangedFields } from '../../rules/history/history.js'
import { incidentName } from '../../rules/history/incident-changes.js'
import { duringPeriod, REFUSED_EVENTS } from '../logged-events.js'
import type { LogSnapshot } from '../report.js'
import { type FoundIncident, subjectOf } from './incident.js'
import type { IncidentTimes } from './minutes.js'
import { policiesOf, readRefusingBeside } from './paths.js'
import { HEAVY_CLIENT, HEAVY_POLICY } from './usual.js'

/** An incident whose refusals go on. */
interface Ongoing {
  readonly found: FoundIncident
  readonly times: IncidentTimes
}

/** The last change of a name. */
interface LastChange {
  readonly entity: Change['entity']
  readonly name: string
  readonly actor: string
  /** The fields as JSON, before and after; null where there was no row. */
  readonly before: string | null
  readonly after: string | null
  readonly at: number
}

/** The latest thing that was done about an incident. */
export interface IncidentAction {
  readonly what: 'override' | 'rule' | 'ignored'
  /** The client of the override, or the name of the rule; who ignores it. */
  readonly name: string
  /** Who did it; empty where that is not known. */
  readonly actor: string
  /** What the override does, such as `deny`, and where; empty without one. */
  readonly effect: string
  readonly path: string
  readonly at_ms: number
}

/** The edit of a rule since which it refuses so much. */
export interface IncidentCause extends Pick<Change, 'name' | 'actor' | 'before' | 'after'> {
  readonly at_ms: number
}

/** What the history has about an incident. */
export interface IncidentHistory {
  readonly action?: IncidentAction | undefined
  /** When something was done about it, the latest first, but for whether it is ignored. */
  readonly actedMs: readonly number[]
  readonly cause?: IncidentCause | undefined
}

/** An edit this long before the first minute of a policy's incident may have caused it. */
const CAUSE_MS = HOUR_MS

/**
 * Reads what was done about incidents since they began, and not taken back: an override or a ban of their clients, an edit
 * of a policy or of a rule that refused beside it, or that somebody ignores them. An edit from which a policy's incident
 * comes is its cause, as long as it is the latest.
 */
export async function readActions(
  snapshot: LogSnapshot,
  ongoing: readonly Ongoing[],
): Promise<ReadonlyMap<FoundIncident, IncidentHistory>> {
  if (ongoing.length === 0) return new Map()
  const names = new Map(ongoing.map(({ found }) => [found, actedNames(found)]))
  const sinceMs = Math.min(...ongoing.map(({ times }) => times.fromMs)) - CAUSE_MS
  const changes = await readChanges(snapshot, [...names.values()], sinceMs)
  const edits = await readOtherEdits(snapshot, [...names.values()], sinceMs)
  const beside =
    edits.length === 0
      ? undefined
      : await readRefusingBeside(
          snapshot,
          ongoing.map(({ found }) => found),
        )
  const histories = new Map<FoundIncident, IncidentHistory>()
  for (const { found, times } of ongoing) {
    const about = names.get(found)
    const latest: IncidentAction[] = []
    let cause: IncidentCause | undefined
    for (const change of [...changes, ...edits]) {
      const isAbout = about?.[change.entity].includes(change.name)
      const isBeside = change.entity === 'rule' && beside?.get(found)?.has(change.name)
      if (!(isAbout || isBeside)) continue
      const isBefore = change.at < times.fromMs
      if (change.entity === 'rule' && (isBefore || (await isCause(snapshot, found, change)))) {
        if (found.kind === 'policy' && isAbout && change.at >= times.fromMs - CAUSE_MS) cause = toCause(change)
        continue
      }
      if (isBefore) continue
      latest.push(...toAction(change))
    }
    latest.sort((one, other) => other.at_ms - one.at_ms)
    // Whatever is done later, an incident is ignored until it is over.
    const action = latest.find(({ what }) => what === 'ignored') ?? latest[0]
    const actedMs = latest.flatMap(({ what, at_ms }) => (what === 'ignored' ? [] : [at_ms]))
    histories.set(found, { action, actedMs, cause })
  }
  return histories
}

/** Returns what a change did about an incident: nothing where it is watched again. */
function toAction({ entity, name, actor, after, at }: LastChange): IncidentAction[] {
  const fields: ChangedFields = JSON.parse(after ?? '{}')
  const [effect, path] = entity === 'override' ? [`${fields.effect ?? ''}`, `${fields.pathPattern ?? ''}`] : ['', '']
  if (entity !== 'incident') return [{ what: entity, name, actor, effect, path, at_ms: at }]
  return fields.ignored === true ? [{ what: 'ignored', name: actor, actor, effect, path, at_ms: at }] : []
}

function toCause({ name, actor, before, after, at }: LastChange): IncidentCause {
  const fields = (text: string | null): ChangedFields | null => JSON.parse(text ?? 'null')
  return { name, actor, before: fields(before), after: fields(after), at_ms: at }
}

/** Reads the last change of each override that was not deleted since, of each rule and of each incident, since a moment. */
function readChanges({ entries: { query, dialect } }: LogSnapshot, names: readonly ActedNames[], sinceMs: number) {
  const table = dialect.table('rate_limit_change')
  const spelled = (entity: Change['entity']) => JSON.stringify([...new Set(names.flatMap((each) => each[entity]))])
  return query<LastChange>(
    `SELECT entity, name, actor, before, after, ${dialect.toMs('changed_at')} AS at FROM ${table} WHERE id IN (
       SELECT MAX(id) FROM ${table} AS change
       WHERE (entity = 'override' AND action <> 'delete' AND ${dialect.isOneOf('name', '$1', 'text')}
           AND NOT EXISTS (SELECT 1 FROM ${table} AS later WHERE later.entity = 'override'
             AND later.row_id = change.row_id AND later.id > change.id AND later.action = 'delete')
           OR entity = 'rule' AND action <> 'create' AND ${dialect.isOneOf('name', '$2', 'text')}
           OR entity = 'incident' AND ${dialect.isOneOf('name', '$3', 'text')})
         AND changed_at >= ${dialect.fromMs('$4')}
       GROUP BY entity, name)`,
    [spelled('override'), spelled('rule'), spelled('incident'), sinceMs],
  )
}

/** The most rules of other policies whose edits are looked at: the latest. */
const MAX_OTHER_EDITS = 50

/** Reads the last edit of each rule that is no policy of an incident, since a moment: it may have refused beside one. */
function readOtherEdits({ entries: { query, dialect } }: LogSnapshot, names: readonly ActedNames[], sinceMs: number) {
  const table = dialect.table('rate_limit_change')
  const policies = JSON.stringify([...new Set(names.flatMap(({ rule }) => rule))])
  return query<LastChange>(
    `SELECT entity, name, actor, before, after, ${dialect.toMs('changed_at')} AS at FROM ${table} WHERE id IN (
       SELECT MAX(id) FROM ${table}
       WHERE entity = 'rule' AND action <> 'create' AND NOT ${dialect.isOneOf('name', '$1', 'text')}
         AND changed_at >= ${dialect.fromMs('$2')}
       GROUP BY name ORDER BY MAX(id) DESC LIMIT ${MAX_OTHER_EDITS})`,
    [policies, sinceMs],
  )
}

/**
 * Returns whether an edit of a policy may have caused an incident: in its first hour, before it had refused as much as
 * makes an incident.
 */
async function isCause(
  { query, dialect }: LogSnapshot,
  { from, kind }: FoundIncident,
  { name, at }: LastChange,
): Promise<boolean> {
  if (at >= (from + 1) * HOUR_MS) return false
  const parameters = new Parameters()
  const rule = parameters.add(name)
  const [before] = await query<{ refused: number }>(
    `SELECT SUM(weight) AS refused FROM ${dialect.table('rate_limit_event')}
     WHERE ${REFUSED_EVENTS.during} AND ${duringPeriod(dialect, { startMs: from * HOUR_MS, endMs: at }, parameters)}
       AND (${POLICY} = ${rule} OR ${hasRefused(dialect, rule)})`,
    parameters.values,
  )
  return (before?.refused ?? 0) < (kind === 'policy' ? HEAVY_POLICY : HEAVY_CLIENT)
}

/** A client has up to 129 networks around it. */
const overridesFor = rememberClients(overrideClientsFor, (spelled) => 2 * spelled.join().length)

/** The names under which the history has what may be done about an incident. */
type ActedNames = Readonly<Record<Change['entity'], readonly string[]>>

function actedNames(found: FoundIncident): ActedNames {
  const { kind, scope, rows } = found
  const subject = subjectOf(scope)
  const names = { rule: policiesOf(found), incident: [incidentName(subject)] }
  if (kind === 'policy') return { ...names, override: [] }
  const override = overridesFor(subject)
  if (kind === 'client') return { ...names, override }
  return { ...names, override: [...override, ...new Set(rows.map(({ client }) => client))] }
}

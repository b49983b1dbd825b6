import { SECOND_MS } from '../../ground/time/clock.js'
import type { ExplainedLimit } from '../../http/explain/explained-limit.js'
import type { Hook } from '../../plugin/hook/hook.js'
import type { AppliedOverride, LimitsInForce } from '../../plugin/parts/limits-in-force.js'
import type { ClientEffect } from '../../reports/change-effects.js'
/** The overrides in force for a client, and those before. */
import type { ClientCounts } from '../../reports/client-counts.js'
import type { ClientDetail } from '../../reports/client-detail.js'
import type { ClientOverride } from '../../reports/client-overrides.js'
import type { FoundClient } from '../../reports/find-clients.js'
import type { ClientEvent } from '../../reports/listed-events.js'
import type { UsageReports } from '../../reports/usage.js'
import { describeChange } from './changes/change-sentence.js'
import { SOURCES } from './changes/changes-page.js'
import { endLabel } from './client-menu.js'
import { unitLeft } from './explain-page.js'
import { formatCount, spanWords, toMoment, visible } from './format.js'
import { EVERY_PATH, spellSeen } from './override-actions.js'
import { actorWords, effectTone, effectWords, endWords, isBan } from './override-words.js'
import type { RulePageLinks } from './rules/rule-links.js'
import { toOutcomes } from './stack.js'
import { describeUser, trialFor } from './trials.js'

/** The report that the pages of a client share while they follow. */
export interface ClientReport {
  readonly detail: ClientDetail
  readonly standings: Standings
  /** The clients in it, where it is a network. */
  readonly members: readonly FoundClient[]
  /** The effects of the overrides in force, by their ids. */
  readonly effects: ReadonlyMap<number, ClientEffect>
  /** The pages of the rules that it met. */
  readonly rulePages: RulePageLinks
  /** What it used in the last days, the latest first. */
  readonly usage: Awaited<ReturnType<UsageReports['latestOf']>>
  /** The time when it was read. */
  readonly nowMs: number
}

/** Returns the overrides in force, with a form that ends each. */
export function overridesInForce(
  { detail: { client, overrides }, effects, standings }: ClientReport,
  fields: readonly { readonly name: string; readonly value: string }[],
  token: string | undefined,
) {
  return overrides.map((override) => {
    return {
      id: override.id,
      effect: effectWords(override.effect),
      tone: effectTone(override.effect),
      // An override of a network concerns others too.
      of: override.client === client ? '' : visible(override.client),
      path: override.path_pattern === EVERY_PATH ? '' : visible(override.path_pattern),
      waits: override.effect !== 'deny' && overrides.some(isBlock),
      until: endWords(override.expires_at === null ? null : Date.parse(override.expires_at)),
      who: actorWords(override.actor, 'by'),
      since: toMoment(Date.parse(override.updated_at)),
      note: visible(override.note),
      used: usedNow(standings.ofOverrides.get(override.id)),
      ...(overrides.length > 1 && appliesWords(override.id, standings.applies)),
      ...effectOf(override.effect, effects.get(override.id)),
      end: token && {
        token,
        client,
        fields,
        seen: spellSeen(override),
        label: endLabel(override, client, isBan(override)),
      },
    }
  })
}

/** Returns whether an override blocks its client on all paths. */
function isBlock({ effect, path_pattern }: ClientOverride): boolean {
  return effect === 'deny' && (path_pattern === '' || path_pattern === EVERY_PATH)
}

function appliesWords(id: number, applies: number | undefined) {
  return applies === undefined ? {} : { applies: id === applies, applies_not: id !== applies }
}

/** Says what a client has used of a limit; empty where that is not known. */
export function usedNow(standing: ExplainedLimit | undefined): string {
  if (standing === undefined) return ''
  return unitLeft(standing) ?? `${formatCount(standing.count ?? 0)} used, ${formatCount(standing.remaining ?? 0)} left`
}

/** Says what came of an override, and what was before it. */
function effectOf(effect: string, report: ClientEffect | undefined) {
  if (report === undefined || report.span_ms < SECOND_MS) return {}
  const { span_ms, until_now, before, after } = report
  const span = spanWords(span_ms)
  return {
    after:
      effect === 'allow'
        ? 'Exempt requests are not logged.'
        : `${until_now ? `In the ${span} since` : `In its first ${span}`}: ${outcomeWords(after)}`,
    before: `In the ${span} before: ${outcomeWords(before)}`,
  }
}

function outcomeWords(counts: ClientCounts): string {
  const { allowed, refused, denied } = toOutcomes(counts)
  const wouldBe = counts.would_be === 0 ? '' : `, ${formatCount(counts.would_be)} would have been refused`
  return `${formatCount(allowed)} allowed, ${formatCount(refused)} refused${wouldBe}, ${formatCount(denied)} denied`
}

/** Returns the changes of its overrides, the newest first. */
export function changesOf({ client, history }: ClientDetail) {
  return history.map((change) => ({
    id: change.id,
    ...toMoment(change.changedAt.getTime()),
    words: describeChange(change).sentence,
    of: change.name === client ? '' : visible(change.name),
    who: actorWords(change.actor, 'subject'),
    source: `from ${SOURCES[change.source]}`,
    note: visible(noteOf(change)),
  }))
}

function noteOf({ before, after }: ClientDetail['history'][number]): string {
  const note = (after ?? before)?.note
  return typeof note === 'string' ? note : ''
}

/** The most policies whose state is asked for: each is a call of the store. */
const MAX_ASKED = 8

/** What a client has used of its limits now. */
export interface Standings {
  readonly ofPolicies: ReadonlyMap<string, ExplainedLimit>
  /** By the ids of overrides: each has a count of its own. */
  readonly ofOverrides: ReadonlyMap<number, ExplainedLimit>
  /** The override that decides about a request such as the latest one; undefined where none does. */
  readonly applies: number | undefined
}

export const NO_STANDINGS: Standings = { ofPolicies: new Map(), ofOverrides: new Map(), applies: undefined }

/** Adds what a client has used of the rules in other units that it was charged by, whatever requests the log has. */
export async function withChargedRules(
  { ofPolicies, ...standings }: Standings,
  client: string,
  policies: Awaited<ReturnType<UsageReports['policiesOf']>>,
  askRule: LimitsInForce['askRule'],
): Promise<Standings> {
  const unasked = policies.filter(({ policy }) => !ofPolicies.has(policy)).slice(0, MAX_ASKED)
  const asked = await Promise.all(
    unasked.map(async ({ policy, unit }) => [policy, unit, await askRule(policy, client)] as const),
  )
  // What no limit counts is charged under the policy that decided, whoever that counts.
  const charged = asked.flatMap(([policy, unit, limit]) => (limit?.unit === unit ? [[policy, limit] as const] : []))
  return { ...standings, ofPolicies: new Map([...ofPolicies, ...charged]) }
}

/**
 * Asks, with the latest request of each policy, what the client has used of it. A policy is left out where no request
 * can be made up that it decides: one that depends on what the log does not have.
 */
export async function presentStandings(
  { client, by_policy, recent_events, overrides }: ClientDetail,
  explainLogged: Hook['explain'],
  overrideFor: (client: string, path: string) => AppliedOverride | undefined,
): Promise<Standings> {
  const trial = trialFor(client)
  if (trial === undefined) return NO_STANDINGS
  const { ip, headers } = trial
  const user = describeUser(trial.user ?? '', trial.fields)
  const latest = by_policy
    .map(({ policy }) => recent_events.find((event) => event.policy === policy))
    .filter((event) => event !== undefined)
    .slice(0, MAX_ASKED)
  const logged = { client, policies: by_policy.map(({ policy }) => policy) }
  const explained = async ({ method, path }: ClientEvent) => {
    try {
      return await explainLogged({ ip, headers, user, method, path }, logged)
    } catch {
      // Other programs log requests that no server takes.
      return undefined
    }
  }
  const explanations = await Promise.all(latest.map(explained))
  const ofPolicies = new Map<string, ExplainedLimit>()
  for (const explanation of explanations) {
    for (const limit of explanation?.limits ?? []) {
      if (limit.applies && limit.count !== null) ofPolicies.set(limit.policy, limit)
    }
  }
  // That brought up to date what is in force.
  const decidedBy = recent_events.map(({ path }) => overrideFor(client, path)?.id)
  const ofOverrides = new Map<number, ExplainedLimit>()
  for (const { id } of overrides.slice(0, MAX_ASKED)) {
    const event = recent_events[decidedBy.indexOf(id)]
    const limits = event && (await explained(event))?.limits
    const limit = limits?.find(({ policy, applies, count }) => policy === 'override' && applies && count !== null)
    if (limit !== undefined) ofOverrides.set(id, limit)
  }
  return { ofPolicies, ofOverrides, applies: decidedBy[0] }
}

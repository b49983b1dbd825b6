import type { AddressPrivacy } from '../../clients/address-privacy.js'
import type { Database } from '../../database/database.js'
import type { Query } from '../../database/dialect.js'
import { type FieldErrors, InvalidSettingError, RuleValidationError } from '../../ground/errors.js'
import { type Clock, HOUR_MS } from '../../ground/time/clock.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { REQUESTS } from '../../ground/unit.js'
import { isRate, type Policy } from '../../limiter/algorithm.js'
import { windowStartMs } from '../../limiter/period.js'
import { parseAppliedRules } from '../../log/applied-rules.js'
import { defaultsFor, type Values } from '../../rules/description.js'
import type { PathOptions } from '../../rules/patterns/path-patterns.js'
import { parseRuleInput, RULES, type Rule, type RuleCandidate, ruleErrors } from '../../rules/rule.js'
import { loadActiveRules } from '../../rules/rule-repository.js'
import { unmetErrors } from '../../rules/unmet-needs.js'
import { entryTablesFor } from '../report.js'
import { createClientReader, type Recovered } from './clients.js'
import { createDecides, type Decides } from './decides.js'
import { countEndedPasses } from './ended-passes.js'
import { eventPages, oldestEventMs } from './events.js'
import { type PreviewOverrides, readOverrides } from './overrides.js'
import { Replay, type ReplayCounter, type ReplayDependencies } from './replay.js'
import { describePreview, type RulePreview } from './report.js'

export interface PreviewOptions {
  /** The time that the preview reaches back: a number of hours, 1 to 720; 24 by default. */
  readonly hours?: number | undefined
  /** Takes the number of events read so far, after every page; a second pass counts from 0 again. */
  readonly onProgress?: ((events: number) => void) | undefined
}

export interface PreviewDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly router: PathOptions
  /** The way in which addresses are stored; undefined where they are stored in full. */
  readonly privacy?: AddressPrivacy | undefined
  /** Returns the path that rules see for a received one. */
  readonly requestPath: (received: string) => string
  readonly newCounter: (policy: Policy) => ReplayCounter
  /** Returns why the log may lack requests, as far as this process knows. */
  readonly gaps: () => readonly string[]
  /** Returns what else this process knows and the log does not contain. */
  readonly notes: () => readonly string[]
}

const MAX_HOURS = 720

/**
 * Replays the event log through a rule that is not in force, and reports what it would have done.
 *
 * The candidate replaces the stored rule of its name, is active, and stands among the rules that are active now: it
 * decides the requests for which it is the first of its group, unless an override that is in force now does. Rules that
 * begin or end decide the requests of their time. Every client's requests run through its algorithm in the order of time.
 * What a limit of another group refused stays refused, and is no refusal of the candidate. A request whose client is not
 * in the log is counted as uncovered.
 *
 * The result is exact where the log is complete and reaches back over the warm-up (see `warmUpStartMs`), as far as the
 * clocks of servers agree. All pages are read from one snapshot of the database, among other work.
 *
 * @throws RuleValidationError with a message for every wrong field, InvalidSettingError for other hours than 1 to 720
 */
export type Preview = (candidate: RuleCandidate, options?: PreviewOptions) => Promise<RulePreview>

export function createPreview(dependencies: PreviewDependencies): Preview {
  const { database, clock } = dependencies

  return async function preview(candidate, { hours = 24, onProgress } = {}) {
    const rule = parseCandidate(candidate)
    const errors = unmetErrors({ condition: candidate.condition }, database.sources)
    if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
    validateHours(hours)

    return database.log.report(async (query) => {
      const { dialect } = database.log
      const entries = entryTablesFor(database, query)
      const { sources } = database
      const { rules, rejected } = await loadActiveRules({ ...entries, sources })
      const decides = await createDecides(dependencies.router, rule, rules, sources)
      const overrides = await readOverrides(entries, dependencies.router, {
        nowMs: clock.now(),
        ratesDecide: rule.group === '',
        privacy: dependencies.privacy,
      })
      const untilMs = Math.floor(clock.now())
      const sinceMs = Math.max(0, untilMs - Math.round(hours * HOUR_MS))
      const fromMs = warmUpStartMs(rule, sinceMs)
      const run = (noIdIsAnonymous: boolean) =>
        replayLog(dependencies, query, {
          rule,
          decides,
          overrides,
          isRefusedByOthers: createRefusedByOthers(rule, rules),
          sinceMs,
          untilMs,
          fromMs,
          noIdIsAnonymous,
          onProgress,
        })
      const first = await run(true)
      const { replayed } = first.hasTextualUsers ? await run(false) : first
      return describePreview({
        rule,
        hours,
        sinceMs,
        untilMs,
        fromMs,
        oldestMs: await oldestEventMs(query, dialect),
        replayed,
        endedPasses: await countEndedPasses(entries, overrides.all, fromMs, untilMs),
        gaps: dependencies.gaps(),
        notes: [
          ...dependencies.notes(),
          ...rejected.map(({ name, reason }) => `Rule ${JSON.stringify(name)} is left out: ${reason}.`),
          ...overrides.rejected.map(
            ({ name, reason }) => `The override of ${JSON.stringify(name)} is left out: ${reason}.`,
          ),
        ],
      })
    })
  }
}

interface PreviewRun {
  readonly rule: Rule
  readonly decides: Decides
  readonly overrides: PreviewOverrides
  readonly isRefusedByOthers: ReplayDependencies['isRefusedByOthers']
  readonly sinceMs: number
  readonly untilMs: number
  readonly fromMs: number
  readonly noIdIsAnonymous: boolean
  readonly onProgress: PreviewOptions['onProgress']
}

async function replayLog({ database, requestPath, newCounter }: PreviewDependencies, query: Query, run: PreviewRun) {
  const { dialect } = database.log
  const { overrides, fromMs, untilMs } = run
  const findings = { hasTextualUsers: false }
  const { client } = run.rule
  const toClient = unknownUse(run.rule) ?? createClientReader(client, run.noIdIsAnonymous, findings)
  const replayed = new Replay({
    ...run,
    requestPath,
    newCounter,
    toClient,
    override: (event, path) => overrides.verdict(event, path),
  })
  const slices = new CooperativeYield()
  let read = 0
  for await (const page of eventPages(query, dialect, fromMs, untilMs)) {
    for (const event of page) {
      const times = event.isSum ? 1 : event.weight
      for (let added = 0; added < times; added++) {
        for (const _step of replayed.add(event)) if (slices.over()) await slices.pause()
        if (slices.over()) await slices.pause()
      }
    }
    read += page.length
    run.onProgress?.(read)
  }
  return { replayed, hasTextualUsers: findings.hasTextualUsers }
}

/** Returns what tells no client where the log does not have what a request used; undefined where it has. */
function unknownUse({ counts, policy, unit }: Rule): (() => Recovered) | undefined {
  if (counts !== null) return () => ({ reason: 'status_not_logged', field: 'response.status' })
  if (!isRate(policy)) return () => ({ reason: 'progress_not_logged', field: 'requests in progress' })
  return unit === REQUESTS ? undefined : () => ({ reason: 'amount_not_logged', field: `charges in ${unit}` })
}

/**
 * Returns the time from which events are replayed, so that the counters are warm when the window begins. A fixed window
 * is exact when it is replayed from its own beginning. The others remember longer: two periods are replayed, at least
 * an hour. They are exact for every client that was away for a period meanwhile (two with the sliding window), and
 * almost exact for the others.
 */
function warmUpStartMs({ policy }: Rule, sinceMs: number): number {
  const starts = (policy.windows ?? [policy]).map(({ periodMs }) => {
    const windowMs = windowStartMs(periodMs, sinceMs)
    return policy.algorithm === 'fixed_window' ? windowMs : Math.max(0, windowMs - Math.max(2 * periodMs, HOUR_MS))
  })
  return Math.min(...starts)
}

function validateHours(hours: number): void {
  if (Number.isFinite(hours) && hours >= 1 && hours <= MAX_HOURS) return
  throw new InvalidSettingError(`Option "hours" is ${String(hours)}: give a number of hours, 1 to ${MAX_HOURS}`)
}

const OF_A_ROW = ['id', 'createdAt', 'updatedAt']

/**
 * Validates a candidate as a write to the rule table is validated, and refuses unknown fields, since a misspelt field
 * would silently preview another rule.
 *
 * @throws RuleValidationError with a message for every wrong field
 */
export function parseCandidate(candidate: RuleCandidate): Rule {
  const values = Object.fromEntries(Object.entries(candidate ?? {}).filter(([, value]) => value !== undefined))
  const errors: FieldErrors = { ...strangeFields(values), ...ruleErrors(values, 'new') }
  if (Object.keys(errors).length > 0) throw new RuleValidationError(errors)
  return parseRuleInput({ ...defaultsFor(RULES.fields), ...values })
}

function strangeFields(values: Values): FieldErrors {
  const fields = Object.keys(RULES.fields)
  const strange = Object.keys(values).filter((field) => !fields.includes(field) && !OF_A_ROW.includes(field))
  return Object.fromEntries(
    strange.map((field) => [field, `is not a field of a rule: the fields are ${fields.join(', ')}`]),
  )
}

/**
 * Creates the function that returns whether another group than the rule's refused a request. Limits that are no active
 * rule stand for the group without a name.
 *
 * @param active the rules of now, since the log has no groups
 */
function createRefusedByOthers(rule: Rule, active: readonly Rule[]): ReplayDependencies['isRefusedByOthers'] {
  const groups = new Map([...active, rule].map(({ name, group }) => [name, group]))
  return function isRefusedByOthers({ rules }) {
    const refusing = parseAppliedRules(rules).filter(({ isRefused }) => isRefused)
    return (refusing.length === 0 ? [''] : refusing.map(({ name }) => groups.get(name) ?? '')).some(
      (group) => group !== rule.group,
    )
  }
}

import type { AlertKind, LastRun } from '../../../operations/alerts/alert-runs.js'
import { type AlertSettings, CHANNEL_SWITCHES, type channelsOn } from '../../../operations/alerts/channels/channels.js'
import type { ToldEntry } from '../../../operations/alerts/ledger.js'
import type { TestOutcome } from '../../../operations/alerts/send-test.js'
import type { JobRecord } from '../../../operations/schedule/job-leases.js'
import { type Incident, POLICY_SCOPE, subjectOf } from '../../../reports/incidents/incident.js'
import type { Notice } from '../../shell/notice-cookie.js'
import { formatCount, formatTime, toMoment, visible } from '../format.js'
import { clientHref } from '../links.js'

export const ALERTS_PAGE = 'alerts.html'

interface ShownChannel {
  readonly channel: ReturnType<typeof channelsOn>[number]
  /** Its subscription. */
  readonly watch: string
  readonly runs: readonly LastRun[]
}

export interface AlertsView {
  readonly settings: AlertSettings
  readonly channels: readonly ShownChannel[]
  /** The job of this process's schedule; its record is absent before the first run. */
  readonly job: { readonly nextMs: number; readonly record: JobRecord | undefined } | undefined
  readonly isLogging: boolean
  /** The incidents of which channels were told last, and what is known of them. */
  readonly told: readonly ToldEntry[]
  /** The incidents of these days; undefined where the log cannot be read. */
  readonly incidents: readonly Incident[] | undefined
  readonly nowMs: number
}

/** Returns the context of `alerts.hbs`. */
export function alertsContext({ settings, channels, job, isLogging, told, incidents, nowMs }: AlertsView) {
  const scopes = incidents && new Map(incidents.map(({ id, scope }) => [id, scope]))
  return {
    title: 'Alerts',
    subtitle: 'Rate limits',
    channels: channels.map(({ channel, runs }) => {
      const problem = channel.problem?.(settings)
      return {
        title: `${channel.title}: ${stateWord(runs, problem)}`,
        where: channel.where(settings),
        problem: problem && visible(problem),
        is_failing: problem !== undefined || isFailing(runs),
        runs: runs.map(runRow),
      }
    }),
    switches: CHANNEL_SWITCHES.map((option, index) => ({ option, before: index === 0 ? '' : ' or ' })),
    told: told.map((each) => toldRow(each, channels, scopes)),
    schedule: job && scheduleWords(job, nowMs),
    is_logging: isLogging,
    test_notes: channels.flatMap(({ channel }) => channel.testNote?.(settings) ?? []),
    now: toMoment(nowMs),
  }
}

/** Says in a word how a channel is, which its colour shows too. */
function stateWord(runs: readonly LastRun[], problem: string | undefined): string {
  if (problem !== undefined) return 'not set up'
  if (runs.length === 0) return 'not tried yet'
  return isFailing(runs) ? 'failing' : 'working'
}

/** Returns whether the last run failed, or the last one that was no test: a test delivers no alert that was missed. */
function isFailing(runs: readonly LastRun[]): boolean {
  const alert = runs.find(({ kind }) => kind !== 'test')
  return [runs[0], alert].some((run) => run !== undefined && run.error !== null)
}

const KINDS: Readonly<Record<AlertKind, readonly [title: string, one: string, many: string]>> = {
  incidents: ['Incidents', 'incident', 'incidents'],
  notices: ['Notices', 'notice', 'notices'],
  offenders: ['Keys over the threshold', 'key', 'keys'],
  test: ['Test message', '', ''],
}

function runRow({ kind, ranMs, sentMs, told, error }: LastRun) {
  const [title] = KINDS[kind] ?? [visible(kind)]
  return {
    kind: title,
    ran: momentWords(ranMs),
    result: error === null ? toldWords(kind, told) : `Failed: ${visible(error)}`,
    has_failed: error !== null,
    sent: sentMs === null ? 'Never' : momentWords(sentMs),
  }
}

function toldWords(kind: AlertKind, told: number): string {
  if (told === 0) return 'Nothing to report'
  if (kind === 'test') return 'Sent'
  const [, one, many] = KINDS[kind]
  return told === 1 ? `Reported 1 ${one}` : `Reported ${formatCount(told)} ${many}`
}

const FORGOTTEN = 'An incident that the log no longer has'
const UNREAD = 'An incident: the log does not respond at the moment'

function toldRow(
  { watch, id, foundMs, overMs }: ToldEntry,
  channels: readonly ShownChannel[],
  scopes: ReadonlyMap<string, string> | undefined,
) {
  const scope = scopes?.get(id)
  const subject = scope === undefined || scope.startsWith(POLICY_SCOPE) ? undefined : subjectOf(scope)
  return {
    name: scope === undefined ? (scopes === undefined ? UNREAD : FORGOTTEN) : visible(scope),
    href: subject && clientHref(subject, { days: 7 }),
    channel: channels.find((each) => each.watch === watch)?.channel.title,
    sent: momentWords(foundMs),
    over: overMs === null ? '' : momentWords(overMs),
  }
}

function scheduleWords({ nextMs, record }: NonNullable<AlertsView['job']>, nowMs: number) {
  const next = Number.isFinite(nextMs) ? momentWords(nextMs) : 'never'
  if (record === undefined) return { next, last: 'The alerts have not run yet.', has_failed: false }
  const { startedMs, finishedMs, leaseUntilMs, error } = record
  const began = momentWords(startedMs)
  const hasDied = finishedMs === null && leaseUntilMs < nowMs
  if (hasDied)
    return { next, last: `The run that began at ${began} did not end: its process stopped.`, has_failed: true }
  if (finishedMs === null) return { next, last: `A run began at ${began} and is still running.`, has_failed: false }
  const last =
    error === null
      ? `The last run ended at ${momentWords(finishedMs)}.`
      : `The last run, at ${began}, failed: ${visible(error)}.`
  return { next, last, has_failed: error !== null }
}

/** Says what came of a test message. */
export function testNotice(outcomes: readonly TestOutcome[]): Notice {
  const sentences = outcomes.map(({ channel, error }) =>
    error === undefined
      ? `The test message was sent by ${channel}.`
      : `The test message by ${channel} failed: ${visible(error)}.`,
  )
  const text = sentences.length === 0 ? 'Nothing was sent: no channel is set up.' : sentences.join(' ')
  return { succeeded: outcomes.length > 0 && outcomes.every(({ error }) => error === undefined), text, typed: {} }
}

/** Raw SQL may have written a moment that is no time. */
function momentWords(ms: number): string {
  return Number.isNaN(new Date(ms).getTime()) ? 'not a valid time' : `${formatTime(ms)} UTC`
}

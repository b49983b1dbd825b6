import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import type { Incident } from '../../reports/incidents/incident.js'
import { recordRuns } from './alert-runs.js'
import { type AlertChannel, deliver, subscriptionOf } from './channel.js'
import { type ChannelDependencies, createChannels, listChannels } from './channels.js'
import { IncidentMemory, type IncidentNews } from './incident-memory.js'
import { createIncidentMessage } from './incident-message.js'
import type { AlertLog } from './notify.js'

export interface IncidentAlertOptions {
  /** Ends the run before the next message. */
  readonly signal?: AbortSignal | undefined
}

/** The messages of one channel in a run. */
export interface IncidentOutcome {
  /** The number of messages that were sent. */
  readonly told: number
  /**
   * The reason why the first message failed, without secrets: the next run tries it again. Absent where none failed.
   */
  readonly error?: string
}

export interface IncidentAlertResult {
  /** The incidents of the last day, told now or before. */
  readonly incidents: readonly Incident[]
  /** A channel that is not configured has no entry. */
  readonly channels: { readonly email?: IncidentOutcome; readonly webhook?: IncidentOutcome }
}

interface IncidentDependencies extends ChannelDependencies {
  readonly database: Database
  readonly log: AlertLog
  readonly findIncidents: () => Promise<readonly Incident[]>
}

/** The most messages at once: more help nobody. The next run tells of the others. */
const MAX_TOLD = 20
/** A channel that is away must not hold up the run, and one message that is refused not the others. */
const MAX_FAILED = 3

/**
 * Tells of the incidents of the last day: one message each through each channel of the settings, once over all processes
 * and restarts. A message that could not be sent is tried again by the next run.
 *
 * @throws the error of a database that cannot be read
 */
export async function sendIncidentAlerts(
  dependencies: IncidentDependencies,
  { signal }: IncidentAlertOptions = {},
): Promise<IncidentAlertResult> {
  const channels = listChannels(createChannels(dependencies))
  if (channels.length === 0) return { incidents: [], channels: {} }
  const incidents = await dependencies.findIncidents()
  const tell = async (channel: AlertChannel) => ({
    channel,
    // A run would tell of all incidents again without its memory.
    ...(await tellChannel(channel, incidents, dependencies, signal).catch((error: unknown): IncidentOutcome => {
      const reason = errorMessage(error)
      dependencies.log.error({ err: error }, `Rate limit alert by ${channel.name} failed: ${reason}`)
      return { told: 0, error: reason }
    })),
  })
  const runs = await Promise.all(channels.map(tell))
  await recordRuns(dependencies, 'incidents', runs)
  return {
    incidents,
    channels: Object.fromEntries(runs.map(({ channel, ...outcome }) => [channel.name, outcome])),
  }
}

async function tellChannel(
  channel: AlertChannel,
  incidents: readonly Incident[],
  dependencies: IncidentDependencies,
  signal: AbortSignal | undefined,
): Promise<IncidentOutcome> {
  const { database, clock, settings, log } = dependencies
  const memory = new IncidentMemory(database, clock, subscriptionOf(channel))
  const told = await memory.read(incidents.map(({ id }) => id))
  const news = incidents.flatMap((incident) => newsOf(incident, told, settings.notifiesResolved))
  const errors: string[] = []
  let count = 0
  let failed = 0
  for (const { incident, what } of news) {
    if (count === MAX_TOLD || failed === MAX_FAILED || signal?.aborted) break
    const claim = await memory.claim(incident.id, what)
    if (claim === undefined) continue
    const { delivered, error } = await deliver(channel, createIncidentMessage(incident, what, settings.publicUrl))
    const isOver: IncidentNews[] = incident.to === null ? [] : ['over']
    await claim.settle(delivered ? [what, ...isOver.filter((each) => each !== what)] : []).catch((failure: unknown) => {
      const reason = errorMessage(failure)
      log.error({ err: failure }, `Rate limit alerts: the sent alert could not be stored: ${reason}`)
    })
    if (delivered) count++
    else failed++
    if (error !== undefined) errors.push(error)
  }
  const [error] = errors
  if (error === undefined) return { told: count }
  log.error({ channel: channel.name }, `Rate limit alert by ${channel.name} failed: ${error}`)
  return { told: count, error }
}

/** Returns what is to be told of an incident. One that was over when it was first told is not told again. */
function newsOf(
  incident: Incident,
  told: Readonly<Record<IncidentNews, ReadonlySet<string>>>,
  notifiesOver: boolean,
): { readonly incident: Incident; readonly what: IncidentNews }[] {
  if (!told.found.has(incident.id)) return [{ incident, what: 'found' }]
  const isOver = notifiesOver && incident.to !== null && !told.over.has(incident.id)
  return isOver ? [{ incident, what: 'over' }] : []
}

import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import { earlierIds, type Incident } from '../../reports/incidents/incident.js'
import { recordRuns } from './alert-runs.js'
import { type AlertChannel, subscriptionOf } from './channel.js'
import { type ChannelDependencies, createChannels, listChannels } from './channels.js'
import { IncidentMemory, type IncidentNews, type ToldIds } from './incident-memory.js'
import { createIncidentMessage } from './incident-message.js'
import type { AlertLog } from './notify.js'
import { tellNotices } from './send-notices.js'
import { Telling } from './telling.js'

export interface IncidentAlertOptions {
  /** Ends the run before the next message. */
  readonly signal?: AbortSignal | undefined
}

/** The messages of one channel in a run. */
export interface IncidentOutcome {
  /** The number of messages that were sent, about incidents and notices. */
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

/**
 * Tells of the incidents of the last day, and of the notices that servers have not told of: one message each through each
 * channel of the settings, once over all processes and restarts. A message that could not be sent is tried again by the next run.
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
  const toldIds = await memory.read(incidents.flatMap((incident) => [incident.id, ...earlierIds(incident)]))
  const news = incidents
    .map(toldAs(incidents, toldIds))
    .flatMap((each) => newsOf(each, toldIds, settings.notifiesResolved))
  const telling = new Telling(channel, log, signal)
  for (const { incident, id, what } of news) {
    if (telling.hasEnded) break
    const message = createIncidentMessage(incident, id, settings.publicUrl)
    await telling.tell(memory, id, what, message, incident.to === null ? [] : ['over'])
  }
  await tellNotices(channel, telling, dependencies)
  const { told, error } = telling
  if (error === undefined) return { told }
  log.error({ channel: channel.name }, `Rate limit alert by ${channel.name} failed: ${error}`)
  return { told, error }
}

/** An incident, with the id under which a subscription is told of it. */
interface ToldIncident {
  readonly incident: Incident
  readonly id: string
}

/**
 * Returns the function that names an incident as a subscription was told of it: one that was a policy's when it was told
 * keeps that id, unless the policy's goes on beside it.
 */
function toldAs(incidents: readonly Incident[], { found }: ToldIds): (incident: Incident) => ToldIncident {
  const taken = new Set(incidents.map(({ id }) => id))
  return (incident) => {
    const earlier = found.has(incident.id)
      ? undefined
      : earlierIds(incident).find((id) => found.has(id) && !taken.has(id))
    if (earlier !== undefined) taken.add(earlier)
    return { incident, id: earlier ?? incident.id }
  }
}

/**
 * Returns what is to be told of an incident: that it is there, also where it goes on again after it was told to be over; and
 * that it is over, unless it was when it was first told.
 */
function newsOf(
  { incident, id }: ToldIncident,
  told: ToldIds,
  notifiesOver: boolean,
): (ToldIncident & { readonly what: IncidentNews })[] {
  const isOver = incident.to !== null
  if (!told.found.has(id) || (!isOver && told.over.has(id))) return [{ incident, id, what: 'found' }]
  return notifiesOver && isOver && !told.over.has(id) ? [{ incident, id, what: 'over' }] : []
}

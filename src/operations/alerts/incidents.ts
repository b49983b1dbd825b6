/** The alerts about incidents, and about notices that no server could tell of. */
import { earlierIds, type Incident } from '../../reports/incidents/incident.js'
import { subscriptionOf } from './channels/channel.js'
import { type AlertChannels, type ChannelDependencies, createChannels } from './channels/channels.js'
import { createIncidentMessage } from './incident-message.js'
import { type Entry, type Finding, Ledger } from './ledger.js'
import { tellNotices } from './notices.js'
import { type TellDependencies, tellChannels } from './sender.js'

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
  readonly channels: { readonly [Name in keyof AlertChannels]?: IncidentOutcome }
}

interface IncidentDependencies extends ChannelDependencies, TellDependencies {
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
  const channels = createChannels(dependencies)
  if (channels.length === 0) return { incidents: [], channels: {} }
  const { database, clock, settings } = dependencies
  const incidents = await dependencies.findIncidents()
  const senders = await tellChannels(
    dependencies,
    'incidents',
    channels,
    async (sender) => {
      const ledger = new Ledger(database, clock, subscriptionOf(sender.channel))
      await ledger.keep(incidents.flatMap((incident) => [incident.id, ...earlierIds(incident)]))
      const entries = await ledger.read()
      for (const { incident, ...finding } of incidentNews(incidents, entries, settings.alertResolved)) {
        if (sender.hasEnded) break
        await sender.send([finding], () => createIncidentMessage(incident, finding.key, settings.publicUrl), ledger)
      }
      await tellNotices(sender, dependencies)
    },
    { signal },
  )
  return {
    incidents,
    channels: Object.fromEntries(
      senders.map(({ channel, told, error }) => [channel.name, { told, ...(error !== undefined && { error }) }]),
    ),
  }
}

/**
 * Returns what is to be told of incidents: that each is there, also where it goes on again after it was told to be over; and
 * that it is over, unless it was when it was first told. One that was a policy's when it was told keeps that id, unless the
 * policy's goes on beside it.
 */
function incidentNews(
  incidents: readonly Incident[],
  entries: ReadonlyMap<string, Entry>,
  notifiesOver: boolean,
): (Finding & { readonly incident: Incident })[] {
  const isTold = (id: string) => (entries.get(id)?.notifiedMs ?? null) !== null
  const taken = new Set(incidents.map(({ id }) => id))
  return incidents.flatMap((incident) => {
    const earlier = isTold(incident.id) ? undefined : earlierIds(incident).find((id) => isTold(id) && !taken.has(id))
    const key = earlier ?? incident.id
    taken.add(key)
    const isOver = incident.to !== null
    const isToldOver = (entries.get(key)?.resolvedMs ?? null) !== null
    if (!isTold(key) || (!isOver && isToldOver)) {
      return { key, incident, news: isOver ? 'found and over' : 'found' }
    }
    return notifiesOver && isOver && !isToldOver ? { key, incident, news: 'over' } : []
  })
}

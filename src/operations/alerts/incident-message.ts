/** The message of an alert about an incident. */
import { formatCount } from '../../ground/number-text.js'
import { type Incident, POLICY_SCOPE, subjectOf } from '../../reports/incidents/incident.js'
import {
  DENIED_COLOUR,
  type Fact,
  MAX_JSON_BYTES,
  MAX_URL,
  type Message,
  type MessageLink,
  momentText,
  REFUSED_COLOUR,
  shownName,
} from './channels/message.js'

/** Chats take some thousand characters in all. */
const MAX_SCOPE = 200
const MAX_NAME = 100
const MAX_NAMES = 5
/** The characters of addresses and networks, which no format has markup for. */
const ADDRESS = /^(?:ip:)?([\da-f.:]{2,45}(?:\/\d{1,3})?)$/i

/**
 * @param id under which all messages about it are put together
 * @param publicUrl the address of the dashboard, as `parsePublicUrl` answers it; undefined where it is not known
 */
export function createIncidentMessage(incident: Incident, id: string, publicUrl: string | undefined): Message {
  const isOver = incident.to !== null
  const url = publicUrl && incidentUrl(incident, publicUrl)
  return {
    id: `incident/${id}`,
    title: `${isOver ? 'Incident over' : 'Incident'}: ${titleSubject(incident)}`,
    sentence: sentenceFor(incident),
    facts: factsOf(incident),
    links: publicUrl && url ? [{ text: 'Open the incident', url }, ...subjectLinks(incident, publicUrl)] : [],
    // PagerDuty drops the end of what it does not have: an incident that was over when it was first told pages nobody.
    kind: isOver ? 'over' : 'alarm',
    publicUrl,
    json: { incident: fitting({ ...incident, id, ...(url && { url }) }) },
  }
}

/** Names addresses alone: other clients and policies have names that others wrote. */
function titleSubject({ scope }: Incident): string {
  const [, address] = ADDRESS.exec(scope) ?? []
  if (address !== undefined) return address
  if (scope.startsWith(POLICY_SCOPE)) return 'a policy'
  return scope.startsWith('user:') ? 'a user' : 'a client'
}

function sentenceFor({ refused, denied, from, to, state }: Incident): string {
  const requests = refused === 1 ? '1 request' : `${formatCount(refused)} requests`
  const verb = to !== null ? 'were' : refused === 1 ? 'has been' : 'have been'
  const when = to === null ? `since ${momentText(from)}` : `between ${momentText(from)} and ${momentText(to)}`
  const alsoDenied = denied === 0 ? '' : `, and ${formatCount(denied)} denied`
  return `${requests} ${verb} refused ${when}${alsoDenied}. ${STATES[state]}`
}

const STATES: Readonly<Record<Incident['state'], string>> = {
  open: 'The incident is still open.',
  acted_on: 'The incident is still open, and somebody has acted on it.',
  over: 'The incident is over.',
}

function factsOf({ scope, from, to, clients, refused, denied, policies, paths }: Incident): Fact[] {
  const isPolicy = scope.startsWith(POLICY_SCOPE)
  const name = isPolicy ? scope.slice(POLICY_SCOPE.length) : scope.replace(/^ip:/, '')
  return [
    { name: isPolicy ? 'Policy' : isNetwork(scope) ? 'Network' : 'Client', value: shownName(name, MAX_SCOPE) },
    { name: 'Since', value: momentText(from) },
    ...(to === null ? [] : [{ name: 'Until', value: momentText(to) }]),
    ...(isPolicy || (isNetwork(scope) && !scope.startsWith('ip:'))
      ? [{ name: 'Clients', value: formatCount(clients) }]
      : []),
    { name: 'Refused (over a limit)', value: formatCount(refused), colour: REFUSED_COLOUR },
    { name: 'Denied (by an operator or a list)', value: formatCount(denied), colour: DENIED_COLOUR },
    ...(isPolicy ? [] : [{ name: 'Policies', value: listText(policies) }]),
    { name: 'Paths', value: paths.length === 0 ? 'no longer in the log' : listText(paths) },
  ]
}

function listText(names: readonly string[]): string {
  const more = names.length - MAX_NAMES
  const shown = names.slice(0, MAX_NAMES).map((name) => shownName(name, MAX_NAME))
  return shown.join(', ') + (more > 0 ? ` and ${formatCount(more)} more` : '')
}

/**
 * Returns the address of the incident, with its time: it is there when it is long over, too. The id is in the query, since a
 * fragment does not survive a sign-in.
 */
function incidentUrl(incident: Incident, publicUrl: string): string {
  return `${publicUrl}incident.html?${new URLSearchParams({ id: incident.id, ...timesOf(incident) })}`
}

/** Returns the time of an incident as the addresses of pages spell it; until now where it goes on. */
function timesOf({ from, to }: Incident): Readonly<Record<string, string>> {
  const spell = (iso: string) => `${iso.slice(0, 16)}Z`
  return { since: spell(from), ...(to !== null && { until: spell(to) }) }
}

/** Returns where its client or policy is looked into. The parameters have no character that a message would interpret. */
function subjectLinks(incident: Incident, publicUrl: string): MessageLink[] {
  const { scope } = incident
  const link = (page: string, fields: Readonly<Record<string, string>>) =>
    `${publicUrl}${page}?${new URLSearchParams({ ...fields, ...timesOf(incident) })}`
  const subject = scope.startsWith(POLICY_SCOPE)
    ? { text: 'Open the policy', url: link('', { rule: scope.slice(POLICY_SCOPE.length) }) }
    : {
        text: `Open the ${isNetwork(scope) ? 'network' : 'client'}`,
        url: link('client.html', { client: subjectOf(scope) }),
      }
  return subject.url.length <= MAX_URL ? [subject] : []
}

/** A client is a network, too, where addresses are truncated. */
function isNetwork(scope: string): boolean {
  return scope.includes('/') && ADDRESS.test(scope)
}

/** Cuts the lists of an incident until its JSON is small enough: paths and policies have texts of others. */
function fitting<Listed extends Pick<Incident, 'policies' | 'paths'>>(incident: Listed): Listed {
  const policies = [...incident.policies]
  const paths = [...incident.paths]
  const shown = () => ({ ...incident, policies, paths })
  const isTooLong = () => Buffer.byteLength(JSON.stringify({ incident: shown() })) > MAX_JSON_BYTES
  while ((policies.length > 0 || paths.length > 0) && isTooLong()) {
    if (policies.length > 0) policies.pop()
    else paths.pop()
  }
  return shown()
}

import type { ClientCounts } from '../../reports/client-counts.js'
import { type ReportWindow, windowDays } from '../../reports/report-window.js'
import { formatCount, offeredWindows, toMoment, visible, windowName } from './format.js'
import { type Back, backFields, clientHref, type KeptView, searchHref } from './links.js'
import type { RequestedWindow } from './requested-view.js'
import { stackOutcomes, toOutcomes } from './stack.js'
import { timeSelector } from './time-selector.js'

/**
 * Returns the context of `search-results.hbs`.
 *
 * @param found the clients that a text may mean; without a text, those with the most requests
 */
export function searchContext(
  text: string,
  found: readonly (ClientCounts & { readonly client: string })[],
  { window, typed, back }: RequestedWindow & Pick<KeptView, 'back'>,
  nowMs: number,
) {
  return {
    found,
    days: windowDays(window, nowMs),
    page: {
      title: text === '' ? 'Clients' : `Search for ${visible(text)}`,
      subtitle: 'Rate limits',
      q: text,
      shown: visible(text),
      window: windowName(window),
      windows: offeredWindows(window),
      time: timeSelector({ window, typed }, nowMs, (each) => searchHref(text, each, back)),
      kept: [...(text === '' ? [] : [{ name: 'q', value: text }]), ...backFields(back)],
      clients: foundClients(found, window, back),
      caption:
        text === ''
          ? 'The clients with the most requests, at most 20'
          : 'The clients that the text may mean, those that it spells first, at most 20',
      has_text: text !== '',
      now: toMoment(nowMs),
    },
  }
}

/** Returns the rows of `found-clients.hbs`. */
export function foundClients(
  found: readonly (ClientCounts & { readonly client: string })[],
  window: ReportWindow,
  back: Back,
) {
  const most = Math.max(0, ...found.map(({ requests }) => requests))
  return found.map(({ client, ...counts }) => ({
    client: visible(client),
    href: clientHref(client, window, back),
    requests: formatCount(counts.requests),
    over_limit: formatCount(counts.over_limit),
    would_be: formatCount(counts.would_be),
    denied: formatCount(counts.denied),
    segments: stackOutcomes(toOutcomes(counts), most),
  }))
}

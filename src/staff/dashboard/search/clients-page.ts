import type { ClientCounts } from '../../../reports/client-counts.js'
import { foundClients } from '../client-views.js'
import { offeredWindows, toMoment, visible, windowName } from '../format.js'
import { backFields, clientsHref, type KeptView } from '../links.js'
import { type LogState, logNotices } from '../log-state.js'
import type { RequestedWindow } from '../requested-view.js'
import { timeSelector } from '../time-selector.js'

/**
 * Returns the context of `clients-page.hbs`.
 *
 * @param listed the clients that a text may mean; without a text, those with the most requests
 */
export function clientsContext(
  text: string,
  listed: readonly (ClientCounts & { readonly client: string })[],
  { window, typed, back }: RequestedWindow & Pick<KeptView, 'back'>,
  log: LogState,
  nowMs: number,
) {
  return {
    page: {
      title: 'Clients',
      subtitle: 'Rate limits',
      notices: logNotices(log, listed.length > 0),
      text,
      shown: visible(text),
      window: windowName(window),
      windows: offeredWindows(window),
      time: timeSelector({ window, typed }, nowMs, (each) => clientsHref(text, each, back)),
      kept: [...(text === '' ? [] : [{ name: 'q', value: text }]), ...backFields(back)],
      clear_href: clientsHref('', window, back),
      clients: foundClients(listed, window, back),
      caption:
        text === ''
          ? 'The clients with the most requests, at most 100'
          : 'The clients that the text may mean, exact matches first, at most 100',
      now: toMoment(nowMs),
    },
  }
}

/** Links from an alert to the dashboard. */

/** The days of a window that the dashboard shows. */
const MAX_DAYS = 365
/** A key that is the client itself; others say by which rule it was counted, and the search finds the client. */
const CLIENT = /^(?:ip|user):/

/** Parses the address of a dashboard, with a slash at its end; undefined for a text that is none. */
export function parsePublicUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = url.search === '' && url.hash === '' && url.username === '' && url.password === ''
  if (!/^https?:$/.test(url.protocol) || !isPlain) return undefined
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  // Brackets would end a link in Markdown.
  return url.href.replaceAll('(', '%28').replaceAll(')', '%29')
}

/**
 * Returns the address of a client's page, whose parameters have no character that a message would interpret.
 *
 * @param publicUrl as `parsePublicUrl` answers it
 * @param key of the log
 */
export function clientLink(publicUrl: string, key: string, days: number): string {
  const window = String(Math.min(MAX_DAYS, Math.max(1, Math.ceil(days))))
  const [page, parameter] = CLIENT.test(key) ? ['client.html', 'client'] : ['search.html', 'q']
  return `${publicUrl}${page}?${new URLSearchParams({ [parameter]: key, days: window })}`
}

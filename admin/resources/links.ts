/** Returns the address of a client's page on a dashboard; undefined where there is none. */
export function offenderHref(dashboard: string | undefined, key: string): string | undefined {
  return dashboard === undefined ? undefined : `${dashboard}offender.html?${new URLSearchParams({ key })}`
}

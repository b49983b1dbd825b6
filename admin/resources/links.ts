import type { Places } from '../../src/internals.js'

/** A client's page on the dashboard; undefined where there is none. */
export function offenderHref({ dashboard }: Places, key: string): string | undefined {
  return dashboard === undefined ? undefined : `${dashboard}offender.html?${new URLSearchParams({ key })}`
}

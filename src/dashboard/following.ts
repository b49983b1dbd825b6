import { SECOND_MS } from '../time/clock.js'
import type { Following } from './links.js'

/** The parameter of a page that takes the report that others have read just now. */
const SHARED = 'follow=1'

/** The least time until a page asks again. */
const LEAST_MS = SECOND_MS

/**
 * Returns how a page follows what happens, for `live.js` and for browsers without JavaScript.
 *
 * @param hrefFor returns the address of the same page that follows, or does not
 */
export function following(live: Following, freshForMs: number, hrefFor: (live: Following) => string) {
  // Whole seconds, so that pages that ask at about the same time can share their HTML.
  const waitMs = Math.max(LEAST_MS, Math.ceil(freshForMs / SECOND_MS) * SECOND_MS)
  return {
    is_on: live !== 'off',
    /** Browsers reload only where the address says so: what is typed into a form would be lost. */
    reload_s: live === 'on' ? waitMs / SECOND_MS : undefined,
    wait_ms: waitMs,
    source: `${hrefFor(live)}&${SHARED}`,
    on_href: hrefFor('on'),
    off_href: hrefFor('off'),
  }
}

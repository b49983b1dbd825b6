/** The work that one request may make: for the patterns of overrides and rules, and for conditions, together. */

/**
 * The length up to which a text is always searched, whatever else a request has: the engine remembers states for it,
 * which takes a few milliseconds at worst for one of the largest patterns, or for dozens of small ones. So what a request
 * of the usual lengths costs depends on the rules alone, and none is refused, however many rules there are.
 */
export const SHORT_LENGTH = 256

/** The `SHORT_LENGTH` of patterns: a path is searched with a slash at its end, too, where the router ignores that. */
export const SHORT_PATH_LENGTH = SHORT_LENGTH + 1

/**
 * The most work with longer texts. A unit is one instruction of a pattern for one character, of which RE2 takes some
 * 8 to 15 ns without states, or as much other work: some 15 ms at worst. It covers one of the usual patterns in any text
 * that Node.js accepts, and 50 of them in 300 characters.
 */
export const MAX_WORK = 1_000_000

/** The part of `MAX_WORK` that a request has taken. */
export interface RequestWork {
  work: number
}

/** The work of a search that is done in any case. */
export const ANY_WORK: RequestWork = { work: Number.NEGATIVE_INFINITY }

/** Takes work before it is done. Returns false where that is too much: the request is refused. */
export function takeWork(request: RequestWork, units: number): boolean {
  request.work += units
  return request.work <= MAX_WORK
}

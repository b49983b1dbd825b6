/** A client that was refused, and its number of refusals. */
export interface Offender {
  readonly key: string
  readonly blocked_count: number
}

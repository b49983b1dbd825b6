/** A client that was refused, and how often. */
export interface Offender {
  readonly key: string
  readonly blocked_count: number
}

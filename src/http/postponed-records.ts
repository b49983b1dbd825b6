/** Records decisions after all hooks of a route have run, where one of these may refuse the request. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CheckedRequest } from './decide.js'

/**
 * @param checked by the plugin's own check
 * @param refused by a limit of the route, which then is what came of the request
 */
export type RecordDecision = (checked: CheckedRequest, refused?: CheckedRequest) => void

/** The requests whose decision is not recorded yet. Each is recorded exactly once. */
export class PostponedRecords {
  readonly #record: RecordDecision
  readonly #waiting = new Map<FastifyRequest, CheckedRequest>()

  constructor(record: RecordDecision) {
    this.#record = record
  }

  /** Waits until the request has passed its hooks, one of them has ended it, or its connection is gone. */
  add(checked: CheckedRequest, { raw }: FastifyReply): void {
    const { request } = checked
    // The client hung up during the check: no event would follow, and HTTP/2 has no flag but the missing socket.
    if (raw.destroyed || !raw.socket) {
      this.#record(checked)
      return
    }
    const settle = () => this.settle(request)
    this.#waiting.set(request, checked)
    raw.once('finish', settle)
    raw.once('close', settle)
  }

  /** Records what the plugin's own check has decided. */
  settle(request: FastifyRequest): void {
    const checked = this.#take(request)
    if (checked !== undefined) this.#record(checked)
  }

  /** Records that a limit of the route has refused a request; nothing where the plugin's own check did not run. */
  takeOver(refused: CheckedRequest): void {
    const checked = this.#take(refused.request)
    if (checked !== undefined) this.#record(checked, refused)
  }

  /** Records the requests in progress. */
  close(): void {
    for (const request of [...this.#waiting.keys()]) this.settle(request)
  }

  #take(request: FastifyRequest): CheckedRequest | undefined {
    const checked = this.#waiting.get(request)
    if (checked !== undefined) this.#waiting.delete(request)
    return checked
  }
}

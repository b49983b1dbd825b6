import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

/** A part of the plugin that begins with the app, or ends with it. */
export interface Component {
  /** Called at registration, which fails when it rejects. */
  prepare?(): Promise<void>
  /** Called when the app is ready, before its first request. */
  start?(): Promise<void> | void
  /** Called after the app's last request. */
  close?(): Promise<void> | void
}

/** The longest wait for one component at closing, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5_000

/** Prepares and starts components in the order in which they were opened, and closes them in reverse. */
export class Components {
  readonly #opened: Component[] = []

  constructor(app: FastifyInstance) {
    app.addHook('onReady', () => this.#start())
    app.addHook('onClose', () => this.#close())
  }

  /** Adds a component and returns it. */
  open<T extends Component>(component: T): T {
    this.#opened.push(component)
    return component
  }

  async prepare(): Promise<void> {
    for (const component of this.#opened) await component.prepare?.()
  }

  async #start(): Promise<void> {
    for (const component of this.#opened) await component.start?.()
  }

  /** Closes all components, and then throws the first failure. */
  async #close(): Promise<void> {
    const failures: unknown[] = []
    for (const component of this.#opened.toReversed()) {
      const timeout = delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })
      await Promise.race([component.close?.(), timeout]).catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }
}

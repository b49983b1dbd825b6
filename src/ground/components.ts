/** A part of an app or of a limiter that begins with it, or ends with it. */
export interface Component {
  /** Prepares at registration, which fails when it rejects. */
  prepare?(): Promise<void>
  /** Starts when the app is ready, before its first request. */
  start?(): Promise<void> | void
  /** Closes after the app's last request. */
  close?(): Promise<void> | void
}

interface Opened {
  readonly name: string
  readonly component: Component
}

/** The longest wait at closing, in milliseconds: for a part before the next one begins, for all but connections, for all. */
const STEP_MS = 100
const PARTS_MS = 2_700
const CLOSE_MS = 3_000

/**
 * Prepares and starts components in the order in which they were opened, and closes them in reverse. While a database or
 * Redis hangs, a part does not keep the next one from closing, and all are given up after three seconds.
 */
export class Components {
  readonly #log: { warn(details: object, message: string): void }
  /** The connections that the others use; they are closed last. */
  readonly #connections: Opened[] = []
  readonly #parts: Opened[] = []

  constructor(log: { warn(details: object, message: string): void }) {
    this.#log = log
  }

  /** Adds a component that others use until they are closed, and returns it. */
  connect<T extends Component>(name: string, component: T): T {
    this.#connections.push({ name, component })
    return component
  }

  /** Adds a component and returns it. */
  open<T extends Component>(name: string, component: T): T {
    this.#parts.push({ name, component })
    return component
  }

  get #all(): readonly Component[] {
    return [...this.#connections, ...this.#parts].map(({ component }) => component)
  }

  async prepare(): Promise<void> {
    for (const component of this.#all) await component.prepare?.()
  }

  async start(): Promise<void> {
    for (const component of this.#all) await component.start?.()
  }

  /** Closes all components, and then throws the first failure. */
  async close(): Promise<void> {
    const startedMs = performance.now()
    const failures: unknown[] = []
    const unclosed = new Set<string>()

    async function close({ name, component }: Opened): Promise<void> {
      unclosed.add(name)
      try {
        await component.close?.()
      } catch (error) {
        failures.push(error)
      }
      unclosed.delete(name)
    }

    const upTo = (timeMs: number) => startedMs + timeMs - performance.now()
    const closing: Promise<void>[] = []
    for (const part of this.#parts.toReversed()) {
      const closed = close(part)
      closing.push(closed)
      await within(Math.min(STEP_MS, upTo(PARTS_MS)), closed)
    }
    await within(upTo(PARTS_MS), Promise.all(closing))
    for (const connection of this.#connections.toReversed()) {
      await within(upTo(CLOSE_MS), close(connection))
    }
    if (unclosed.size > 0) {
      const names = [...unclosed].join(', ')
      this.#log.warn({}, `Rate limit: not closed within ${CLOSE_MS / 1_000} seconds, and given up: ${names}`)
    }
    if (failures.length > 0) throw failures[0]
  }
}

/** Waits for what never fails, for some time at most. The process does not end meanwhile. */
function within(waitMs: number, closed: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, Math.max(0, waitMs))
    void closed.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

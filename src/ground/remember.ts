import { detached } from './storable.js'

/**
 * Returns a function that computes the value of each text of an operator's once. Beyond `capacity` texts it forgets all
 * of them. Texts of clients are for `ClientMemory`.
 */
export function remember<Value>(capacity: number, compute: (text: string) => Value): (text: string) => Value {
  const remembered = new Map<string, Value>()
  return function remembering(text) {
    const existing = remembered.get(text)
    // A remembered value takes one lookup, unless it is undefined.
    if (existing !== undefined || remembered.has(text)) return existing as Value
    const value = compute(text)
    if (remembered.size >= capacity) remembered.clear()
    remembered.set(text, value)
    return value
  }
}

/**
 * The most that a process remembers of texts that clients wrote, in bytes: for all apps, rules, limits and caches
 * together, since clients choose how many of them they reach. Beyond it all is forgotten together, and computed again.
 */
const MAX_CLIENT_BYTES = 32 * 2 ** 20
/** A longer text of a client is not remembered. */
const MAX_CLIENT_TEXT = 512
/** The most that a text and its value take: the entry and some objects, and a few copies of the text. */
const ENTRY_BYTES = 400
const CHARACTER_BYTES = 4

/** The memories that have something in them; those of replaced rules are gone with them. */
const filled = new Set<WeakRef<ClientMemory<unknown>>>()
let clientBytes = 0
let isClosed = false

/** A memory for values of texts that clients wrote. */
export class ClientMemory<Value> {
  /** The remembered values. They are read in place: each request reads some. */
  readonly values = new Map<string, Value>()

  forget(): void {
    this.values.clear()
  }

  /**
   * Keeps a value, and returns it.
   *
   * @param bytes what it takes beside copies of the text
   */
  keep(text: string, value: Value, bytes = 0): Value {
    if (isClosed || text.length > MAX_CLIENT_TEXT) return value
    const taken = ENTRY_BYTES + CHARACTER_BYTES * text.length + bytes
    if (clientBytes + taken > MAX_CLIENT_BYTES) {
      for (const memory of filled) memory.deref()?.forget()
      filled.clear()
      clientBytes = 0
    }
    clientBytes += taken
    if (this.values.size === 0) filled.add(new WeakRef(this))
    this.values.set(text, value)
    return value
  }
}

/** Does work during which nothing more is remembered of clients, such as that for a client that is refused anyway. */
export function unremembered<Input extends unknown[], Result>(
  work: (...input: Input) => Result,
  ...input: Input
): Result {
  const before = isClosed
  isClosed = true
  try {
    return work(...input)
  } finally {
    isClosed = before
  }
}

/**
 * Returns a function that computes the value of each text of a client's once, while it is remembered.
 *
 * @param bytesOf what a value takes beside copies of the text
 */
export function rememberClients<Value>(
  compute: (text: string) => Value,
  bytesOf?: (value: Value) => number,
): (text: string) => Value {
  const memory = new ClientMemory<Value>()
  const { values } = memory
  return function remembering(text) {
    const existing = values.get(text)
    // A remembered value takes one lookup, unless it is undefined.
    if (existing !== undefined || values.has(text)) return existing as Value
    const kept = detached(text)
    const value = compute(kept)
    return memory.keep(kept, value, bytesOf?.(value))
  }
}

/** Returns a function that makes a value at its first call, and anew where that failed, as loading a module may. */
export function madeOnce<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined
  return function once() {
    made ??= make().catch((error: unknown) => {
      made = undefined
      throw error
    })
    return made
  }
}

/** Returns a function that its first call creates, such as one whose module few servers need. */
export function createdByFirstCall<Input extends unknown[], Answer>(
  create: () => Promise<(...input: Input) => Promise<Answer>>,
): (...input: Input) => Promise<Answer> {
  const created = madeOnce(create)
  return async (...input) => (await created())(...input)
}

/** Returns a function that computes one value per object, at the first call, and keeps it while the object lives. */
export function memoize<Source extends object, Made>(make: (source: Source) => Made): (source: Source) => Made {
  const made = new WeakMap<Source, Made>()
  return function memoized(source) {
    let value = made.get(source)
    if (value === undefined) {
      value = make(source)
      made.set(source, value)
    }
    return value
  }
}

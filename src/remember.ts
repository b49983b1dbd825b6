/**
 * Returns a function that computes the value of each text once. Beyond `capacity` texts it forgets all of them: most
 * come from clients, and must not fill the memory.
 *
 * @param maxLength a longer text is computed each time
 */
export function remember<Value>(
  capacity: number,
  compute: (text: string) => Value,
  maxLength = Number.POSITIVE_INFINITY,
): (text: string) => Value {
  const remembered = new Map<string, Value>()
  return function remembering(text) {
    if (text.length > maxLength) return compute(text)
    const known = remembered.get(text)
    // A known value takes one lookup, unless it is undefined.
    if (known !== undefined || remembered.has(text)) return known as Value
    const value = compute(text)
    if (remembered.size >= capacity) remembered.clear()
    remembered.set(text, value)
    return value
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
export function createdByFirstCall<Given extends unknown[], Answer>(
  create: () => Promise<(...given: Given) => Promise<Answer>>,
): (...given: Given) => Promise<Answer> {
  const created = madeOnce(create)
  return async (...given) => (await created())(...given)
}

/** Returns a function that computes one value per object, at the first call, and keeps it while the object lives. */
export function memoize<Source extends object, Made>(make: (source: Source) => Made): (source: Source) => Made {
  const made = new WeakMap<Source, Made>()
  return function memoized(source) {
    let known = made.get(source)
    if (known === undefined) {
      known = make(source)
      made.set(source, known)
    }
    return known
  }
}

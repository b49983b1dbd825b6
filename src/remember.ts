/** A value that is known; an object, so that also `undefined` is found by one lookup. */
interface Known<Value> {
  readonly value: Value
}

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
  const remembered = new Map<string, Known<Value>>()
  return function remembering(text) {
    if (text.length > maxLength) return compute(text)
    let known = remembered.get(text)
    if (known === undefined) {
      known = { value: compute(text) }
      if (remembered.size >= capacity) remembered.clear()
      remembered.set(text, known)
    }
    return known.value
  }
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

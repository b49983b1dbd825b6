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

/** Makes what belongs to an object once, when it is first needed, and keeps it for as long as the object lives. */
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

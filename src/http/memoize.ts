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

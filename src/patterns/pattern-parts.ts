import type { PlacedPattern } from './pattern-group.js'
import { requiredTexts } from './required-text.js'

/** How many characters a part has. */
export const PART_LENGTH = 4

/** By which part of a path each of many patterns is found: a few characters that the path must have for it to match. */
export class PatternParts {
  /** Null for a pattern that has no such part. */
  readonly #chosen = new Map<string, string | null>()

  of(pattern: string): string | null {
    return this.#chosen.get(pattern) ?? null
  }

  /**
   * Chooses for patterns that are searched together, so that few have the same part. A step for each.
   *
   * @param previous whose choices stand: they are costly, and what goes together stays together, and compiled
   */
  *choose(
    patterns: readonly PlacedPattern[],
    caseSensitive: boolean,
    previous: PatternParts | undefined,
  ): Generator<void> {
    const uses = new Map<string, number>()
    const choose = (pattern: string, part: string | null) => {
      this.#chosen.set(pattern, part)
      if (part !== null) uses.set(part, (uses.get(part) ?? 0) + 1)
    }
    if (previous !== undefined) {
      for (const { pattern } of patterns) {
        const known = previous.#chosen.get(pattern)
        if (known !== undefined) choose(pattern, known)
        yield
      }
    }
    for (const { pattern } of patterns) {
      if (this.#chosen.has(pattern)) continue
      choose(pattern, leastUsed(requiredTexts(pattern, caseSensitive).flatMap(partsOf), uses))
      yield
    }
  }
}

function partsOf(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - PART_LENGTH + 1) }, (_, start) =>
    text.slice(start, start + PART_LENGTH),
  )
}

function leastUsed(parts: readonly string[], uses: ReadonlyMap<string, number>): string | null {
  let best: string | null = null
  let fewest = Number.POSITIVE_INFINITY
  for (const part of parts) {
    const count = uses.get(part) ?? 0
    if (count >= fewest) continue
    best = part
    fewest = count
  }
  return best
}

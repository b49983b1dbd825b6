import type { Registry } from 'prom-client'

/** The figures that a registry shows, by name and labels as the exposition spells them: `up{job="a"}`. */
export async function figuresOf(registry: Registry): Promise<ReadonlyMap<string, number>> {
  return figuresIn(await registry.metrics())
}

/** Returns the figures of an exposition's text. */
export function figuresIn(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const end = line.lastIndexOf(' ')
      return [line.slice(0, end), Number(line.slice(end + 1))]
    }),
  )
}

/** Returns the name by which the exposition spells decisions. */
export function decisions(rule: string, policy: string, outcome: string, algorithm = 'fixed_window'): string {
  return `ratelimit_decisions_total{rule="${rule}",policy="${policy}",outcome="${outcome}",algorithm="${algorithm}"}`
}

/** Complaints about options that do not exist: they say which one may have been meant. */
import { InvalidSettingError } from './errors.js'

/** Names that differ in more than this share of their letters are other names. */
const MOST_DIFFERENT = 1 / 3
const LONGEST_NAME = 50

/** What Fastify's `register`, fastify-cli and @fastify/autoload add to the options of a plugin, or pass on of their own. */
const FROM_REGISTER: ReadonlySet<string> = new Set([
  'prefix',
  'logLevel',
  'logSerializers',
  'skipOverride',
  'appendAutoPrefix',
  'autoHooks',
  'autoHooksPattern',
  'cascadeHooks',
  'dir',
  'dirNameRoutePrefix',
  'encapsulate',
  'forceESM',
  'ignoreFilter',
  'ignorePattern',
  'indexPattern',
  'matchFilter',
  'maxDepth',
  'options',
  'overwriteHooks',
  'packageType',
  'routeParams',
  'scriptPattern',
])

/** Returns whether an option is for those who register a plugin, which leaves it alone. */
export function isFromRegister(name: string): boolean {
  return FROM_REGISTER.has(name)
}

/** @throws InvalidSettingError for the first option that is neither a plugin's nor of those who register it */
export function validatePluginOptions(plugin: string, options: object, names: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !names.includes(name) && !isFromRegister(name))
  if (unknown === undefined) return
  throw new InvalidSettingError(`Option "${unknown}" of ${plugin} ${doesNotExist(unknown, names)}`)
}

/** Returns the end of a complaint about a name: the nearest one, where one is near, and all that exist. */
export function doesNotExist(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names)
  const all = names.join(', ')
  if (nearest === undefined) return `does not exist: give one of ${all}`
  return `does not exist. Did you mean \`${nearest}\`? Give one of ${all}`
}

/** Returns the name that was meant by one that does not exist, in whatever case; undefined where none is near. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  const compared = name.slice(0, LONGEST_NAME).toLowerCase()
  let least = Math.max(1, Math.floor(compared.length * MOST_DIFFERENT)) + 1
  let nearest: string | undefined
  for (const each of names) {
    const difference = differenceOf(compared, each.toLowerCase())
    if (difference >= least) continue
    least = difference
    nearest = each
  }
  return nearest
}

/**
 * Returns how many letters have to be added, left out, replaced, or swapped with the next one to make one text of another
 * (Damerau, 1964; no letter is changed twice).
 */
function differenceOf(one: string, other: string): number {
  let before: readonly number[] = []
  let row: readonly number[] = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let index = 0; index < one.length; index++) {
    const next = [index + 1]
    for (let at = 0; at < other.length; at++) {
      const replaced = (row[at] ?? 0) + (one[index] === other[at] ? 0 : 1)
      const isSwapped = index > 0 && at > 0 && one[index] === other[at - 1] && one[index - 1] === other[at]
      const swapped = isSwapped ? (before[at - 1] ?? 0) + 1 : replaced
      next.push(Math.min(replaced, swapped, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[other.length] ?? 0
}

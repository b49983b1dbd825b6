import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/package-root.js'

const PROPERTY = /^ {2}(?:\/\*\*(?<doc>(?:(?!\*\/)[\s\S])*)\*\/\s*)?(?:readonly )?(?<name>\w+)\??:/gm

/**
 * Reads what the properties of an interface say about themselves.
 *
 * @param file path from the root of the package
 * @throws Error for a property without a docstring
 */
export function readDocstrings(file: string, name: string): ReadonlyMap<string, string> {
  const source = readFileSync(join(PACKAGE_ROOT, file), 'utf8')
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{(?<body>[\\s\\S]*?)^\\}`, 'm').exec(source)?.groups?.body
  if (body === undefined) throw new Error(`${file} has no interface ${name}`)
  const texts = [...body.matchAll(PROPERTY)].map(({ groups }): [string, string] => {
    const { name: property = '', doc } = groups ?? {}
    if (doc === undefined) throw new Error(`${file}: ${name}.${property} has no docstring`)
    return [
      property,
      doc
        .replace(/^\s*\*\s?/gm, '')
        .trim()
        .replace(/\s+/g, ' '),
    ]
  })
  return new Map(texts)
}

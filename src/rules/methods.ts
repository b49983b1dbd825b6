import { METHODS } from 'node:http'
import { asText } from './field-values.js'

export const MAX_METHOD_LENGTH = 255

/** Parses the methods of a rule into upper case: `get, post` is `['GET', 'POST']`. */
export function parseMethods(value: unknown): string[] {
  const text = asText(value).toUpperCase()
  const methods = [...new Set(text.split(',').map((name) => name.trim()))]
  if (methods.length === 1 && methods[0] === 'ALL') return methods
  const wrong = methods.find((name) => !METHODS.includes(name))
  if (wrong !== undefined) {
    throw new Error(`${JSON.stringify(wrong)} is no HTTP method: give ALL or a list such as GET,POST`)
  }
  if (methods.join(',').length > MAX_METHOD_LENGTH) throw new Error('is too long: give ALL')
  return methods
}

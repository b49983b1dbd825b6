import type { RuleCandidate } from '../../../src/rules/preview-candidate.js'
import { nameOfInput, readJson } from './read-json.js'

/**
 * Reads a rule, whose fields are not looked at yet.
 *
 * @param file `-` for standard input
 * @throws Error when there is no such file, or no JSON object in it
 */
export async function readRuleFile(file: string): Promise<RuleCandidate> {
  const rule = await readJson(file)
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) {
    throw new Error(`${nameOfInput(file)} is no rule: give an object such as { "name": "api", … }`)
  }
  // The preview checks every field.
  return rule as RuleCandidate
}

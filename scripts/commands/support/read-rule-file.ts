import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { messageOf } from '../../../src/errors.js'
import type { RuleCandidate } from '../../../src/rules/preview-candidate.js'

/**
 * Reads a rule, whose fields are not looked at yet.
 *
 * @param file `-` for standard input
 * @throws Error when there is no such file, or no JSON in it
 */
export async function readRuleFile(file: string): Promise<RuleCandidate> {
  const json = file === '-' ? await text(process.stdin) : await readFile(file, 'utf8')
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new Error(`${file === '-' ? 'standard input' : file} is no JSON: ${messageOf(error)}`)
  }
}

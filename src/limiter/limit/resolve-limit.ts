/** Reads the options of a limit that code creates. */
import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import {
  type AnySetting,
  explain,
  parseSettings,
  type Resolved,
  shown,
  validatedBy,
  validateSettings,
} from '../../ground/setting.js'
import { validateLimitName } from '../limit-name.js'

export const LIMIT_NAME = {
  ...VALIDATORS.limitName,
  parse: validatedBy((name: string, called) => explain(called, name, () => validateLimitName(name))),
} as const

const EXAMPLES = { name: 'jobs', rate: '5/m' }

/**
 * @param required the options without which there is no limit
 * @param called returns the name of an option in messages
 * @throws InvalidSettingError for the first invalid, missing or unknown option
 */
export function resolveLimit<Options extends object, Table extends Readonly<Record<string, AnySetting>>>(
  table: Table,
  options: Options,
  required: readonly (keyof typeof EXAMPLES)[],
  called: (name: string) => string,
): Resolved<Options, Table> {
  if (typeof options !== 'object' || options === null) {
    const example = required.map((name) => `${name}: '${EXAMPLES[name]}'`).join(', ')
    throw new InvalidSettingError(`limit() was given ${shown(options)}: give options such as { ${example} }`)
  }
  validateSettings(table, options, called)
  for (const name of required) {
    if (Reflect.get(options, name) !== undefined) continue
    throw new InvalidSettingError(`Setting "${called(name)}" is missing: give a ${name} such as ${EXAMPLES[name]}`)
  }
  return parseSettings(table, options, called)
}

import Type from 'typebox'
import { InvalidSettingError } from './errors.js'
import { checkTargets, type MetricsOptions } from './metrics/targets.js'
import { checkFields, type Fields, Flag } from './settings-check.js'

const Target = Type.Union([Flag, Type.Object({})])
const FIELDS = {
  prometheus: [Target, 'a Registry of prom-client, or true for its default one'],
  openTelemetry: [Target, 'a MeterProvider or a Meter of OpenTelemetry, or true for the global one'],
} as const satisfies Fields

/**
 * Checks where metrics go.
 *
 * @throws InvalidSettingError for what is wrong, unknown, or names nothing
 */
export function resolveMetrics(options: MetricsOptions | undefined): MetricsOptions | undefined {
  if (options === undefined) return undefined
  checkFields(options, FIELDS, (name) => `metrics.${name}`)
  if (options.prometheus === undefined && options.openTelemetry === undefined) {
    throw new InvalidSettingError('Setting "metrics" names nothing: give prometheus, openTelemetry, or both')
  }
  checkTargets(options)
  return options
}

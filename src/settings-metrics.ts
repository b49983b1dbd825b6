import { InvalidSettingError } from './errors.js'
import { Type } from './generated/typebox.js'
import type { MetricsOptions } from './metrics/targets.js'
import { checkFields, Flag, shown } from './settings-check.js'

const Target = Type.Union([Flag, Type.Object({})])
const REGISTRY = 'a Registry of prom-client, or true for its default one'
const METER = 'a MeterProvider or a Meter of OpenTelemetry, or true for the global one'

/**
 * Checks where metrics go.
 *
 * @throws InvalidSettingError for what is wrong, unknown, or names nothing
 */
export function resolveMetrics(options: MetricsOptions | undefined): MetricsOptions | undefined {
  if (options === undefined) return undefined
  const called = (name: string) => `metrics.${name}`
  checkFields(options, { prometheus: [Target, REGISTRY], openTelemetry: [Target, METER] }, called)
  const { prometheus, openTelemetry } = options
  if (prometheus === undefined && openTelemetry === undefined) {
    throw new InvalidSettingError('Setting "metrics" names nothing: give prometheus, openTelemetry, or both')
  }
  if (typeof prometheus === 'object' && !hasMethods(prometheus, 'getSingleMetric', 'registerMetric')) {
    throw wrongObject('prometheus', prometheus, REGISTRY)
  }
  if (
    typeof openTelemetry === 'object' &&
    !hasMethods(openTelemetry, 'getMeter') &&
    !hasMethods(openTelemetry, 'createHistogram', 'createObservableCounter', 'createObservableGauge')
  ) {
    throw wrongObject('openTelemetry', openTelemetry, METER)
  }
  return options
}

function hasMethods(object: object, ...names: string[]): boolean {
  return names.every((name) => typeof Reflect.get(object, name) === 'function')
}

function wrongObject(setting: string, value: object, allowed: string): Error {
  return new InvalidSettingError(`Setting "metrics.${setting}" is ${shown(value)}, which is none: give ${allowed}`)
}

import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { ensure, parseSettings, type SettingTable, shown, validateSettings } from '../../ground/setting.js'
import type { MetricsOptions } from '../../operations/metrics/targets.js'

const REGISTRY = 'a Registry of prom-client, or true for its default one'
const METER = 'a MeterProvider or a Meter of OpenTelemetry, or true for the global one'

export const TARGETS = {
  prometheus: {
    ...VALIDATORS.flagOrReference,
    allowed: REGISTRY,
    parse: ensure(isRegistry, (target) => `is ${shown(target)}, which is not one: give ${REGISTRY}`),
  },
  openTelemetry: {
    ...VALIDATORS.flagOrReference,
    allowed: METER,
    parse: ensure(isMeter, (target) => `is ${shown(target)}, which is not one: give ${METER}`),
  },
} as const satisfies SettingTable<MetricsOptions>

/**
 * Validates the targets of metrics.
 *
 * @throws InvalidSettingError for an invalid or unknown option, or where none is given
 */
export function resolveMetrics(options: MetricsOptions): MetricsOptions {
  const called = (name: string) => `metrics.${name}`
  validateSettings(TARGETS, options, called)
  if (options.prometheus === undefined && options.openTelemetry === undefined) {
    throw new InvalidSettingError('Setting "metrics" names nothing: give prometheus, openTelemetry, or both')
  }
  return parseSettings(TARGETS, options, called)
}

function isRegistry(target: NonNullable<MetricsOptions['prometheus']>): boolean {
  return hasMethods(target, 'getSingleMetric', 'registerMetric')
}

function isMeter(target: NonNullable<MetricsOptions['openTelemetry']>): boolean {
  const isProvider = hasMethods(target, 'getMeter')
  return isProvider || hasMethods(target, 'createHistogram', 'createObservableCounter', 'createObservableGauge')
}

function hasMethods(target: object | boolean, ...names: string[]): boolean {
  return typeof target === 'boolean' || names.every((name) => typeof Reflect.get(target, name) === 'function')
}

/**
 * The metrics, described once for all targets. An *instrument* is a named figure; a *reading* is an instrument whose
 * value an app provides when metrics are collected.
 *
 * Names and units are those of OpenTelemetry. The names for Prometheus follow from them as in the specification
 * of OpenTelemetry, so that one dashboard serves both. No label contains anything that a client could write.
 */
export interface Instrument {
  readonly name: string
  /** `s` for seconds, what is counted in braces, or an empty text. */
  readonly unit: 's' | `{${string}}` | ''
  readonly help: string
}

interface ReadingInstrument extends Instrument {
  /** The name in `AppReadings`. */
  readonly reading: string
  readonly kind: 'counter' | 'gauge'
  /** The way in which figures of several apps or processes combine. */
  readonly combine: 'sum' | 'max'
}

export const DECISIONS: Instrument = {
  name: 'ratelimit.decisions',
  unit: '{decision}',
  help: 'Checked requests, by deciding limit and by outcome.',
}

export const DECISION_LABELS = ['rule', 'policy', 'outcome', 'algorithm'] as const

export const DURATION: Instrument = {
  name: 'ratelimit.decision.duration',
  unit: 's',
  help: 'Time that requests waited for the check of their counters.',
}

/** The buckets reach from a store in memory to twice the time-out that a request waits for a store by default. */
export const DURATION_BUCKETS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
]

export const READINGS = [
  {
    reading: 'storeErrors',
    name: 'ratelimit.store.errors',
    unit: '{error}',
    kind: 'counter',
    combine: 'sum',
    help: 'Batches of checks that the store failed, or did not answer in time.',
  },
  {
    reading: 'fallbackActive',
    name: 'ratelimit.fallback.active',
    unit: '',
    kind: 'gauge',
    combine: 'max',
    help: '1 while the store, or a part of it, fails and onStoreError decides, else 0.',
  },
  {
    reading: 'chargesOwed',
    name: 'ratelimit.charges.owed',
    unit: '{charge}',
    kind: 'gauge',
    combine: 'sum',
    help: 'Charges that are kept for a store that fails.',
  },
  {
    reading: 'chargesLost',
    name: 'ratelimit.charges.lost',
    unit: '{charge}',
    kind: 'counter',
    combine: 'sum',
    help: 'Charges lost, because too many were kept for a store that fails.',
  },
  {
    reading: 'refundsOwed',
    name: 'ratelimit.refunds.owed',
    unit: '{refund}',
    kind: 'gauge',
    combine: 'sum',
    help: 'Refunds that are kept for a store that fails: what requests have taken and not used.',
  },
  {
    reading: 'refundsLost',
    name: 'ratelimit.refunds.lost',
    unit: '{refund}',
    kind: 'counter',
    combine: 'sum',
    help: 'Refunds lost, because too many were kept for a store that fails: their clients have paid for them until the window ends.',
  },
  {
    reading: 'usageDropped',
    name: 'ratelimit.usage.dropped',
    unit: '{sum}',
    kind: 'counter',
    combine: 'sum',
    help: 'Sums of usage lost, because the buffer was full or the table rejected them.',
  },
  {
    reading: 'eventsWritten',
    name: 'ratelimit.events.written',
    unit: '{event}',
    kind: 'counter',
    combine: 'sum',
    help: 'Events written to the log.',
  },
  {
    reading: 'eventsDropped',
    name: 'ratelimit.events.dropped',
    unit: '{event}',
    kind: 'counter',
    combine: 'sum',
    help: 'Events lost, because every buffer was full or the table rejected them.',
  },
  {
    reading: 'eventsBuffered',
    name: 'ratelimit.events.buffered',
    unit: '{event}',
    kind: 'gauge',
    combine: 'sum',
    help: 'Events in memory, not yet written.',
  },
  {
    reading: 'eventsSpooled',
    name: 'ratelimit.events.spooled',
    unit: '{event}',
    kind: 'gauge',
    combine: 'sum',
    help: 'Events in the files of the spool, not yet written.',
  },
  {
    reading: 'rulesActive',
    name: 'ratelimit.rules.active',
    unit: '{rule}',
    kind: 'gauge',
    combine: 'max',
    help: 'Rules in force.',
  },
  {
    reading: 'rulesAgeSeconds',
    name: 'ratelimit.rules.age',
    unit: 's',
    kind: 'gauge',
    combine: 'max',
    help: 'Seconds since the rules in force were read from the table.',
  },
  {
    reading: 'conditionFailures',
    name: 'ratelimit.condition.failures',
    unit: '{failure}',
    kind: 'counter',
    combine: 'sum',
    help: 'Conditions of rules that could not be decided for a request, and did not match.',
  },
  {
    reading: 'overridesActive',
    name: 'ratelimit.overrides.active',
    unit: '{override}',
    kind: 'gauge',
    combine: 'max',
    help: 'Overrides in force, including expired ones that were not deleted.',
  },
  {
    reading: 'incidentsOpen',
    name: 'ratelimit.incidents.open',
    unit: '{incident}',
    kind: 'gauge',
    combine: 'max',
    help: 'Incidents that go on, that nobody ignores, and whose refusals have not fallen since somebody acted; counted in the background.',
  },
] as const satisfies readonly ReadingInstrument[]

export type ReadingName = (typeof READINGS)[number]['reading']

/** Returns the name of an instrument as Prometheus spells it. */
export function prometheusName({ name, unit }: Instrument, kind: 'counter' | 'gauge' | 'histogram'): string {
  return `${name.replaceAll('.', '_')}${unit === 's' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
}

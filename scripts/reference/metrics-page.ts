import {
  DECISION_LABELS,
  DECISIONS,
  DURATION,
  DURATION_BUCKETS,
  type Instrument,
  prometheusName,
  READINGS,
} from '../../src/operations/metrics/instruments.js'
import { code, page, table } from './markdown.js'

type Kind = 'counter' | 'gauge' | 'histogram'

/** Describes every metric. */
export function metricsPage(): string {
  const row = (instrument: Instrument, kind: Kind, several: string) => [
    code(prometheusName(instrument, kind)),
    code(instrument.name),
    kind,
    instrument.unit === '' ? '' : code(instrument.unit),
    several,
    instrument.help,
  ]
  return page('Metrics', 'their definitions', [
    table(
      ['Prometheus', 'OpenTelemetry', 'Type', 'Unit', 'Several apps', 'Meaning'],
      [
        row(DECISIONS, 'counter', 'sum'),
        row(DURATION, 'histogram', 'sum'),
        ...READINGS.map((reading) => row(reading, reading.kind, reading.combine)),
      ],
    ),
    `Labels of ${code(prometheusName(DECISIONS, 'counter'))}: ${DECISION_LABELS.map(code).join(', ')}. No label has anything that a client wrote.`,
    `Bounds of the buckets of ${code(prometheusName(DURATION, 'histogram'))}, in seconds: ${DURATION_BUCKETS.join(', ')}.`,
    '*Several apps* says how the figures of the apps of one process combine where they share a registry or a meter.',
  ])
}

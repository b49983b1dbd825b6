/** The dashboard that ships with the package asks for nothing that the plugin does not expose. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { exposedMetrics, metricsIn } from '../support/exposed-metrics.js'

interface Panel {
  readonly id: number
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}

interface Dashboard {
  readonly uid: string
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
}

/** Labels that Prometheus adds to whatever it scrapes. */
const TARGET_LABELS = ['job', 'instance']
/** Variables that Grafana has of its own. */
const OWN_VARIABLES = ['__rate_interval', '__range']

const dashboard: Dashboard = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'templates', 'grafana-dashboard.json'), 'utf8'))
const targets = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map((target) => ({ title, ...target })))
const queries = [
  ...targets.map(({ expr }) => expr),
  ...dashboard.templating.list.flatMap(({ definition }) => definition ?? []),
]
/** The labels of every series, by its name, as a scrape shows them. */
let exposed: ReadonlyMap<string, ReadonlySet<string>>

before(async () => {
  exposed = await exposedMetrics()
})

test('every metric that it asks for is exposed, and every metric that is exposed is shown', () => {
  const asked = new Set(queries.flatMap(metricsIn))

  assert.ok(asked.size >= 10)
  assert.deepEqual(
    [...asked].filter((name) => !exposed.has(name)),
    [],
  )
  assert.deepEqual(
    [...exposed.keys()].filter((name) => !asked.has(name)),
    [],
  )
})

test('every label that it selects, groups or names by is one of the metric', () => {
  for (const query of queries) {
    for (const [, metric = '', selector = ''] of query.matchAll(/(ratelimit_\w+)\{([^}]*)\}/g)) {
      const labels = [...selector.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label)
      assert.ok(labels.length > 0, query)
      for (const label of labels) assertLabel(label, metric)
    }
    for (const label of groupedBy(query)) {
      for (const metric of metricsIn(query)) assertLabel(label, metric)
    }
  }
  for (const { title, expr, legendFormat } of targets) {
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      const shown = groupedBy(expr).length > 0 ? groupedBy(expr) : TARGET_LABELS
      assert.ok(shown.includes(label), `${title}: ${legendFormat}`)
    }
  }
})

test('every outcome that it asks for is one that decisions have', () => {
  const outcomes = queries.flatMap((query) => [...query.matchAll(/outcome="(\w+)"/g)].map(([, outcome]) => outcome))

  assert.deepEqual([...new Set(outcomes)].sort(), ['blocked', 'would_block'])
})

test('its data source and its other variables are chosen in Grafana, and its panels have a place of their own', () => {
  const variables = dashboard.templating.list.map(({ name }) => name)
  for (const [, name = ''] of queries.join('\n').matchAll(/\$\{?(\w+)/g)) {
    assert.ok([...variables, ...OWN_VARIABLES].includes(name), name)
  }
  assert.ok(variables.includes('DS_PROMETHEUS'))
  assert.equal(dashboard.uid, 'fastify-smart-ratelimit')
  assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length)

  const taken = new Set<string>()
  for (const { title, datasource, gridPos: place, targets = [] } of dashboard.panels) {
    if (targets.length > 0) assert.equal(datasource?.uid, `\${DS_PROMETHEUS}`, title)
    for (let x = place.x; x < place.x + place.w; x++) {
      assert.ok(x < 24, title)
      for (let y = place.y; y < place.y + place.h; y++) {
        assert.ok(!taken.has(`${x} ${y}`), title)
        taken.add(`${x} ${y}`)
      }
    }
  }
})

function groupedBy(query: string): string[] {
  return [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/,\s*/))
}

function assertLabel(label: string | undefined, metric: string): void {
  const labels = [...(exposed.get(metric) ?? []), ...TARGET_LABELS]
  assert.ok(label !== undefined && labels.includes(label), `${metric} has no label ${label}`)
}

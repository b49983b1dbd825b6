/** The alert rules that ship with the package watch what the plugin exposes, and fire when they should. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { exposedMetrics, metricsIn } from '../support/exposed-metrics.js'

const RULES = join(PACKAGE_ROOT, 'templates', 'prometheus-alerts.yml')
const UNIT_TESTS = join(PACKAGE_ROOT, 'test', 'metrics', 'prometheus-alerts.tests.yml')
const { PROMTOOL = 'promtool' } = process.env

const promtoolMissing = spawnSync(PROMTOOL, ['--version']).status !== 0 && `no ${PROMTOOL} (PROMTOOL): of Prometheus`

test('every metric that they watch is exposed', async () => {
  const watched = new Set(metricsIn(readFileSync(RULES, 'utf8')))
  const exposed = await exposedMetrics()

  assert.ok(watched.size >= 7)
  assert.deepEqual(
    [...watched].filter((name) => !exposed.has(name)),
    [],
  )
})

test('Prometheus accepts them, and they fire when they should', { skip: promtoolMissing }, () => {
  for (const args of [
    ['check', 'rules', RULES],
    ['test', 'rules', UNIT_TESTS],
  ]) {
    const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { encoding: 'utf8' })
    assert.equal(status, 0, stdout + stderr)
  }
})

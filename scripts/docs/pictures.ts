/** The drawn pictures of README and documentation: `npm run docs:pictures` writes them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { algorithmChart } from './algorithm-chart.js'
import { cpuChart, parseBars } from './cpu-chart.js'

/** Returns the pictures by their paths, relative to the package: the benchmarks as the table has them. */
export function drawPictures(root: string): ReadonlyMap<string, string> {
  const table = readFileSync(join(root, 'docs', 'operations', 'sizing.md'), 'utf8')
  return new Map([
    ['docs/images/benchmark.svg', cpuChart(parseBars(table))],
    ['docs/images/algorithms.svg', algorithmChart()],
  ])
}

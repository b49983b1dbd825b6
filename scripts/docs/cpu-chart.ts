import { PICTURE_STYLE } from './picture-style.js'

const OURS = 'fastify-smart-ratelimit'
/** The stores, in the order of the groups of bars. */
const STORES = ['memory', 'SQLite', 'Redis', 'PostgreSQL']

const WIDTH = 820
const MARGIN = 20
const LABEL_WIDTH = 260
const TOP = 64
const BAR_HEIGHT = 18
const STEP = 28
const AXIS_WIDTH = WIDTH - LABEL_WIDTH - MARGIN - 150
const TICK_MICROSECONDS = 20

export interface Bar {
  readonly name: string
  /** The CPU time of a check, in microseconds: the median of the rounds, the least and the most, where the table has them. */
  readonly micros: number
  readonly least: number
  readonly most: number
}

/** Returns the rows of the table of benchmarks that are a limiter with a store, by store and cost. */
export function parseBars(markdown: string): readonly Bar[] {
  const [, table = ''] = /<!-- benchmarks:begin -->(.*?)<!-- benchmarks:end -->/s.exec(markdown) ?? []
  const rows = table.matchAll(
    /^\| ([^|,]+, (?:memory|SQLite|Redis|PostgreSQL)) \|(?:[^|]*\|){3} ([\d.]+)(?: \((-?[\d.]+) to ([\d.]+)\))? \|/gm,
  )
  return [...rows]
    .map(([, name = '', micros, least = micros, most = micros]) => ({
      name,
      micros: Number(micros),
      least: Number(least),
      most: Number(most),
    }))
    .toSorted((one, other) => storeIndex(one) - storeIndex(other) || one.micros - other.micros)
}

function storeIndex({ name }: Bar): number {
  return STORES.findIndex((store) => name.endsWith(`, ${store}`))
}

/** Returns the picture of the benchmarks as an SVG document, whose description says the same in words. */
export function cpuChart(bars: readonly Bar[]): string {
  const title = 'CPU time of a check in the server, in microseconds'
  const bottom = TOP + bars.length * STEP
  const height = bottom + 36
  const most = Math.max(1, ...bars.map((bar) => bar.most))
  const x = (micros: number) => Math.round((LABEL_WIDTH + (Math.max(0, micros) * AXIS_WIDTH) / most) * 10) / 10
  const ticks = Array.from(
    { length: Math.floor(most / TICK_MICROSECONDS) + 1 },
    (_, index) => index * TICK_MICROSECONDS,
  )
  const words = ({ micros, least, most: longest }: Bar) =>
    least === longest ? micros.toFixed(1) : `${micros.toFixed(1)} (${least.toFixed(1)} to ${longest.toFixed(1)})`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${title}</title>`,
    `<desc id="description">${bars.map((bar) => `${bar.name}: ${words(bar)}`).join('; ')}</desc>`,
    `<style>${PICTURE_STYLE} .spread { stroke: #1f2328; stroke-width: 1.5 } @media (prefers-color-scheme: dark) { .spread { stroke: #f0f6fc } }</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="6"/>`,
    `<text class="title" x="${MARGIN}" y="34">${title}</text>`,
    ...ticks.flatMap((tick) => [
      `<line x1="${x(tick)}" y1="${TOP - 8}" x2="${x(tick)}" y2="${bottom}"/>`,
      `<text class="tick" x="${x(tick)}" y="${bottom + 20}" text-anchor="middle">${tick}</text>`,
    ]),
    ...bars.flatMap((bar, index) => {
      const top = TOP + index * STEP
      const middle = top + BAR_HEIGHT / 2
      const baseline = top + BAR_HEIGHT - 4
      return [
        `<text x="${LABEL_WIDTH - 10}" y="${baseline}" text-anchor="end">${bar.name}</text>`,
        `<rect class="${bar.name.startsWith(OURS) ? 'ours' : 'other'}" x="${LABEL_WIDTH}" y="${top}" width="${(x(bar.micros) - LABEL_WIDTH).toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
        `<line class="spread" x1="${x(bar.least)}" y1="${middle}" x2="${x(bar.most)}" y2="${middle}"/>`,
        `<text x="${x(bar.most) + 7}" y="${baseline}">${words(bar)}</text>`,
      ]
    }),
    '</svg>',
    '',
  ].join('\n')
}

import { PICTURE_STYLE } from './picture-style.js'

const OURS = 'fastify-smart-ratelimit'

const WIDTH = 820
const MARGIN = 20
const LABEL_WIDTH = 370
const TOP = 64
const BAR_HEIGHT = 18
const STEP = 28
const AXIS_WIDTH = WIDTH - LABEL_WIDTH - MARGIN - 44
const TICKS = [0, 0.25, 0.5, 0.75, 1]

export interface Bar {
  readonly name: string
  /** A share of bare Fastify's requests per second. */
  readonly ratio: number
}

/** Returns the rows of the table of benchmarks that are about stores, each compared with a bare server. */
export function parseBars(markdown: string): readonly Bar[] {
  const [, table = ''] = /<!-- benchmarks:begin -->(.*?)<!-- benchmarks:end -->/s.exec(markdown) ?? []
  return [...table.matchAll(/^\| ((?![^|]*(?:rule|refused|API|bare))[^|]+) \| [\d,]+ ± \d+ % \| ([\d.]+) \|/gm)].map(
    ([, name = '', ratio]) => ({
      name,
      ratio: Number(ratio),
    }),
  )
}

/** Returns the picture of the benchmarks as an SVG document, whose description says the same in words. */
export function ratioChart(bars: readonly Bar[]): string {
  const title = 'Requests per second, as a share of bare Fastify’s'
  const bottom = TOP + bars.length * STEP
  const height = bottom + 36
  const scale = AXIS_WIDTH / Math.max(1, ...bars.map(({ ratio }) => ratio))
  const x = (ratio: number) => Math.round((LABEL_WIDTH + ratio * scale) * 10) / 10
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${title}</title>`,
    `<desc id="description">${bars.map(({ name, ratio }) => `${name}: ${ratio.toFixed(2)}`).join('; ')}</desc>`,
    `<style>${PICTURE_STYLE}</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="6"/>`,
    `<text class="title" x="${MARGIN}" y="34">${title}</text>`,
    ...TICKS.flatMap((tick) => [
      `<line x1="${x(tick)}" y1="${TOP - 8}" x2="${x(tick)}" y2="${bottom}"/>`,
      `<text class="tick" x="${x(tick)}" y="${bottom + 20}" text-anchor="middle">${tick}</text>`,
    ]),
    ...bars.flatMap(({ name, ratio }, index) => {
      const top = TOP + index * STEP
      const baseline = top + BAR_HEIGHT - 4
      return [
        `<text x="${LABEL_WIDTH - 10}" y="${baseline}" text-anchor="end">${name}</text>`,
        `<rect class="${name.startsWith(OURS) ? 'ours' : 'other'}" x="${LABEL_WIDTH}" y="${top}" width="${(ratio * scale).toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
        `<text x="${x(ratio) + 7}" y="${baseline}">${ratio.toFixed(2)}</text>`,
      ]
    }),
    '</svg>',
    '',
  ].join('\n')
}

import { bareRowFor, type RowResult, speedRatio } from './report.js'
import { OURS } from './rows.js'

const WIDTH = 820
const MARGIN = 20
const LABEL_WIDTH = 370
const TOP = 64
const BAR_HEIGHT = 18
const STEP = 28
const AXIS_WIDTH = WIDTH - LABEL_WIDTH - MARGIN - 44
const TICKS = [0, 0.25, 0.5, 0.75, 1]

// The picture has its own background, since a page may be dark while the browser prefers light.
const STYLE = `
  svg { color-scheme: light dark; font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .ground { fill: #ffffff; stroke: #d0d7de } .title { fill: #1f2328; font-size: 16px; font-weight: 600 }
  text { fill: #1f2328 } .tick { fill: #59636e } line { stroke: #d0d7de }
  .ours { fill: #0969da } .other { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d } text, .title { fill: #f0f6fc } .tick { fill: #9198a1 }
    line { stroke: #3d444d } .ours { fill: #4493f8 } .other { fill: #656c76 }
  }
`

/** Returns the picture of the README as an SVG document, whose description says the same in words. */
export function ratioChart(results: readonly RowResult[]): string {
  const title = 'Requests per second, as a share of bare Fastify’s'
  const bars = results.flatMap((result) => {
    const bare = bareRowFor(result, results)
    return bare === undefined ? [] : [{ name: result.row.name, ratio: speedRatio(result, bare) }]
  })
  const bottom = TOP + bars.length * STEP
  const height = bottom + 36
  const scale = AXIS_WIDTH / Math.max(1, ...bars.map(({ ratio }) => ratio))
  const x = (ratio: number) => Math.round((LABEL_WIDTH + ratio * scale) * 10) / 10
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${title}</title>`,
    `<desc id="description">${bars.map(({ name, ratio }) => `${name}: ${ratio.toFixed(2)}`).join('; ')}</desc>`,
    `<style>${STYLE}</style>`,
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

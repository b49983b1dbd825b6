import { type Bar, barChart } from './chart.js'
import { type RowResult, ratioTo } from './results.js'

/** Returns the picture of the README: every limiter beside the bare server that it is compared with. */
export function pictureOf(results: readonly RowResult[]): string {
  const bars = results.flatMap((result): Bar[] => {
    const { id, title, bare } = result.row
    const ratio = ratioTo(bare, result, results)
    return id === bare || ratio === undefined ? [] : [{ label: title, ratio, isOurs: id.startsWith('ours-') }]
  })
  return barChart('Requests per second, as a share of bare Fastify’s', bars)
}

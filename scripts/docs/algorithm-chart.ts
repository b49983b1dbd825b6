import { SECOND_MS } from '../../src/ground/time/clock.js'
import { RATE_ALGORITHMS, type RateAlgorithm } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { PICTURE_STYLE } from './picture-style.js'

const RATE = '10/10s'
const SECONDS = 40
/**
 * The times of the client's requests: four times a second around the end of a window, then nothing, then twice a
 * second.
 */
const REQUESTS_MS = [...momentsMs(6, 14, 4), ...momentsMs(22, 38, 2)]

const WIDTH = 820
const LEFT = 150
const RIGHT = 90
const TOP = 78
const ROW = 52
const MARK = 24

function momentsMs(from: number, to: number, perSecond: number): readonly number[] {
  return Array.from({ length: (to - from) * perSecond }, (_, index) => (from + index / perSecond) * SECOND_MS)
}

/** Returns which of the requests an algorithm admits, as the store in memory decides. */
function admitted(algorithm: RateAlgorithm): readonly boolean[] {
  const store = new MemoryStore()
  const policy = toPolicy(algorithm, parseRate(RATE))
  return REQUESTS_MS.map((nowMs) => store.checkOne({ key: 'client', policy, cost: 1 }, nowMs).allowed)
}

/** Returns the picture of what each algorithm admits as an SVG document, whose description says the same in words. */
export function algorithmChart(): string {
  const rows = RATE_ALGORITHMS.map((algorithm) => ({ algorithm, answers: admitted(algorithm) }))
  const bottom = TOP + rows.length * ROW
  const height = bottom + 44
  const x = (ms: number) => Math.round((LEFT + (ms / SECOND_MS / SECONDS) * (WIDTH - LEFT - RIGHT)) * 10) / 10
  const title = `What each algorithm admits of the same requests, with a rate of ${RATE}`
  const sums = rows.map(({ algorithm, answers }) => ({ algorithm, sum: answers.filter(Boolean).length }))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${title}</title>`,
    `<desc id="description">Of ${REQUESTS_MS.length} requests: ${sums.map(({ algorithm, sum }) => `${algorithm} admits ${sum}`).join('; ')}</desc>`,
    `<style>${PICTURE_STYLE}</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="6"/>`,
    `<text class="title" x="20" y="34">${title}</text>`,
    '<rect class="ours" x="20" y="48" width="4" height="12"/><text x="30" y="59">admitted</text>',
    '<rect class="other" x="110" y="54" width="4" height="6"/><text x="120" y="59">refused</text>',
    ...Array.from({ length: SECONDS / 10 + 1 }, (_, index) => index * 10).flatMap((second) => [
      `<line x1="${x(second * SECOND_MS)}" y1="${TOP}" x2="${x(second * SECOND_MS)}" y2="${bottom}"/>`,
      `<text class="tick" x="${x(second * SECOND_MS)}" y="${bottom + 20}" text-anchor="middle">${second} s</text>`,
    ]),
    ...rows.flatMap(({ algorithm, answers }, row) => {
      const base = TOP + row * ROW + ROW - 12
      return [
        `<text x="${LEFT - 14}" y="${base - 6}" text-anchor="end">${algorithm}</text>`,
        ...answers.map((isAdmitted, index) => {
          const size = isAdmitted ? MARK : MARK / 2
          return `<rect class="${isAdmitted ? 'ours' : 'other'}" x="${x(REQUESTS_MS[index] ?? 0)}" y="${base - size}" width="2.4" height="${size}"/>`
        }),
        `<text x="${WIDTH - RIGHT + 16}" y="${base - 6}">${answers.filter(Boolean).length} of ${answers.length}</text>`,
      ]
    }),
    '</svg>',
    '',
  ].join('\n')
}

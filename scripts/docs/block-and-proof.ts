/** The picture of README that moves: refused requests, whose they are, the block, and the proof that it holds. */
import type { Browser, Page } from 'playwright-core'
import { SECOND_MS } from '../../src/ground/time/clock.js'
import { DASHBOARD, type PicturedShop, startPicturedShop } from './pictured-shop.js'

const WIDTH = 1_160
const HEIGHT = 560
const CAPTION_HEIGHT = 44
/** WebP of a page keeps its text sharp from here on. */
const QUALITY = 62
/** The network that the demo's scraper uses, its clients, and the one of them that the terminal is. */
const NETWORK = '203.0.113.0/24'
const SCRAPERS = Array.from({ length: 12 }, (_, index) => `203.0.113.${10 + index}`)
const TERMINAL = '203.0.113.12'
const MINUTES_LATER = 3

interface Frame {
  readonly caption: string
  readonly shownMs: number
  /** WebP, in base64. */
  readonly image: string
  /** What is marked on the page. */
  readonly marked?: Box | null
}

interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** Returns the picture as an SVG document, with the pages of the shop as they are. */
export async function drawBlockAndProof(browser: Browser): Promise<string> {
  const shop = await startPicturedShop()
  const context = await browser.newContext({ viewport: { width: WIDTH, height: HEIGHT } })
  try {
    return toSvg(await takeFrames(shop, await context.newPage()))
  } finally {
    await context.close()
    await shop.close()
  }
}

async function takeFrames(shop: PicturedShop, page: Page): Promise<Frame[]> {
  const frames: Frame[] = []
  const session = await page.context().newCDPSession(page)
  const add = async (caption: string, shownMs: number, marked?: Box | null) => {
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY })
    frames.push({ caption, shownMs, image: data, ...(marked && { marked }) })
  }
  const block = page.getByRole('button', { name: `Block network ${NETWORK}` }).first()

  await page.setContent(terminal(await askShop(shop, TERMINAL, 70)))
  await add('A scraper: the search refuses it with 429', 3 * SECOND_MS)
  shop.passMinute()
  await page.goto(`${shop.origin}${DASHBOARD}`)
  await add('Whose requests? Twelve clients of one network', 4 * SECOND_MS)
  await add('One click blocks the network', 2 * SECOND_MS, await block.boundingBox())
  await block.click()
  await page.waitForLoadState()
  // Changes have the machine's time.
  await shop.app.smartRateLimit.client.$executeRaw`
    UPDATE rate_limit_change SET changed_at = ${shop.now()} WHERE changed_at > ${shop.now()}`
  for (let minute = 0; minute < MINUTES_LATER; minute++) {
    for (const scraper of SCRAPERS) await askShop(shop, scraper, 75)
    shop.passMinute()
  }
  await shop.app.smartRateLimit.events.flush()
  await page.goto(`${shop.origin}${DASHBOARD}`)
  await add(`The proof, ${MINUTES_LATER} minutes later: nothing allowed since`, 5 * SECOND_MS)
  // The pages of the dashboard allow no style of others.
  await page.goto('about:blank')
  await page.setContent(terminal(await askShop(shop, TERMINAL, 70)))
  await add('The scraper now gets 403', 3 * SECOND_MS)
  return frames
}

interface Answers {
  readonly times: number
  readonly counts: ReadonlyMap<number, number>
  readonly last: string
}

/** Asks the shop as a client of the scraper does, and counts the answers by their status. */
async function askShop({ origin }: PicturedShop, scraper: string, times: number): Promise<Answers> {
  const counts = new Map<number, number>()
  let last = ''
  for (let count = 0; count < times; count++) {
    const answer = await fetch(`${origin}/search`, { headers: { 'x-forwarded-for': scraper } })
    counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
    last = `${answer.status} ${await answer.text()}`
  }
  return { times, counts, last }
}

/** Returns a page that looks like a terminal, with what was answered. */
function terminal({ times, counts, last }: Answers): string {
  const counted = [...counts].map(([status, count]) => `${String(count).padStart(7)} ${status}`)
  const lines = [
    `<b>$</b> for i in $(seq ${times}); do curl -s -o /dev/null -w '%{http_code}\\n' shop.example/search; done | uniq -c`,
    ...counted.map((line) => (line.endsWith(' 200') ? `<i>${line}</i>` : `<u>${line}</u>`)),
    '<b>$</b> curl -s shop.example/search',
    `<u>${last.slice('429 '.length)}</u>`,
  ]
  return `<style>
    body { margin: 0; padding: 34px; background: #0d1117; color: #e6edf3; font: 17px/1.9 ui-monospace, "DejaVu Sans Mono", monospace }
    pre { margin: 0; white-space: pre-wrap; font: inherit } b { color: #9198a1 } i { color: #3fb950; font-style: normal } u { color: #ff7b72; text-decoration: none }
  </style><pre>${lines.join('\n')}</pre>`
}

/** Returns the frames one after the other, over and over; where nothing may move, the last page of the dashboard. */
function toSvg(frames: readonly Frame[]): string {
  const wholeMs = frames.reduce((sum, { shownMs }) => sum + shownMs, 0)
  const still = frames.length - 2
  let startMs = 0
  const rules = frames.map(({ shownMs }, index) => {
    const share = (ms: number) => `${((100 * ms) / wholeMs).toFixed(2)}%`
    const from = share(startMs)
    startMs += shownMs
    const to = share(startMs)
    const before = index === 0 ? '' : `0% { opacity: 0 } `
    const after = index === frames.length - 1 ? '' : `${to} { opacity: 0 } `
    const moving = `@media (prefers-reduced-motion: no-preference) { #f${index} { animation: f${index} ${wholeMs}ms step-end infinite } }`
    return `@keyframes f${index} { ${before}${from} { opacity: 1 } ${after}} ${moving}`
  })
  const height = HEIGHT + CAPTION_HEIGHT
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title description">`,
    '<title id="title">From refused requests to a block, and its proof</title>',
    `<desc id="description">${frames.map(({ caption }) => caption).join('. ')}.</desc>`,
    `<style>g { opacity: 0 } #f${still} { opacity: 1 } ${rules.join(' ')}</style>`,
    `<rect width="${WIDTH}" height="${height}" rx="8" fill="#161b22"/>`,
    ...frames.map(
      ({ caption, image, marked }, index) =>
        `<g id="f${index}"><image y="${CAPTION_HEIGHT}" width="${WIDTH}" height="${HEIGHT}" href="data:image/webp;base64,${image}"/>` +
        `<text x="20" y="29" fill="#e6edf3" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="18">${index + 1}. ${caption}</text>${mark(marked)}</g>`,
    ),
    '</svg>',
    '',
  ].join('\n')
}

function mark(marked: Frame['marked']): string {
  if (!marked) return ''
  const { x, y, width, height } = marked
  return `<rect x="${x - 4}" y="${y + CAPTION_HEIGHT - 4}" width="${width + 8}" height="${height + 8}" rx="10" fill="none" stroke="#bf3989" stroke-width="4"/>`
}

/** Chromium without a window, for what only a browser can tell. */
import { existsSync, readFileSync } from 'node:fs'
import { after, describe, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { atEnd } from './at-end.js'

const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium'
/** A name of this machine that browsers do not take for it: to them its plain http is any other, without `Sec-Fetch-Site`. */
export const PLAIN_HOST = 'panel.test'
/** The arguments keep it from calling home. */
const ARGUMENTS = [
  `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1, MAP *.${PLAIN_HOST} 127.0.0.1`,
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
/** Playwright's own. */
const VIEWPORT = { width: 1280, height: 720 }
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** Half the size of what the package exports. */
const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/**
 * The reason why Chromium is left out, or `false`. Continuous integration never leaves it out: there its tests fail.
 */
const chromiumMissing =
  process.env.CI !== undefined || existsSync(EXECUTABLE) ? false : `no Chromium at ${EXECUTABLE} (CHROMIUM)`

let launched: Promise<Browser> | undefined

/** Declares tests that open pages; the browser closes after the last of them. */
export function inChromium(declareTests: () => void): void {
  describe('in Chromium', { skip: chromiumMissing }, () => {
    after(async () => {
      await (await launched)?.close()
      launched = undefined
      idle.clear()
    })
    declareTests()
  })
}

/** Pages that tests have done with, by the options of their contexts. */
const idle = new Map<string, Page[]>()

/**
 * A page that has stored nothing, and what its console complained about. The end of the test blanks it, for the next test that
 * opens one with these options: a process that has shown pages takes a third of the time that a new one takes.
 */
export async function openPage(t: TestContext, { viewport = VIEWPORT, ...options }: BrowserContextOptions = {}) {
  const kind = JSON.stringify(options)
  const page = idle.get(kind)?.pop() ?? (await newPage(options))
  const context = page.context()
  atEnd(t, async () => {
    page.removeAllListeners()
    for (const other of context.pages()) if (other !== page) await other.close()
    const { origin } = new URL(page.url())
    await page.goto('about:blank')
    await context.clearCookies()
    const session = await context.newCDPSession(page)
    if (origin !== 'null') await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'local_storage' })
    await session.detach()
    await page.emulateMedia({ colorScheme: null })
    idle.set(kind, [...(idle.get(kind) ?? []), page])
  })
  if (viewport !== null) await page.setViewportSize(viewport)
  return { page, complaints: complaintsOf(page) }
}

/** Opens a page for a test that sets the browser's clock, which a page keeps. The end of the test closes it. */
export async function openClockedPage(t: TestContext, options: BrowserContextOptions = {}) {
  const page = await newPage(options)
  atEnd(t, () => page.context().close())
  return { page, complaints: complaintsOf(page) }
}

async function newPage(options: BrowserContextOptions): Promise<Page> {
  launched ??= chromium.launch({ executablePath: EXECUTABLE, args: ARGUMENTS })
  const context = await (await launched).newContext(options)
  return context.newPage()
}

function complaintsOf(page: Page): string[] {
  const complaints: string[] = []
  page.on('console', (message) => complaints.push(message.text()))
  page.on('pageerror', (error) => complaints.push(error.message))
  return complaints
}

// Scripts for the page are texts: its types, the DOM's, are none of this program's.

/** Returns the faults that axe-core finds, by WCAG 2.2 AA and its own best practices: the rule, and where. */
export async function findFaults(page: Page): Promise<string[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(AXE)
  return page.evaluate<string[]>(`
    axe.run({ runOnly: ${JSON.stringify(RULES)}, resultTypes: ['violations'] }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')),
    )`)
}

/** Returns the width of the page, in CSS pixels: more than the window means that it scrolls sideways. */
export function widthOf(page: Page): Promise<number> {
  return page.evaluate<number>('document.scrollingElement.scrollWidth')
}

/** The text and place of what has the focus. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>('document.activeElement.name || document.activeElement.textContent.trim()')
}

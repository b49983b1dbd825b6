import type { BrowserContextOptions, Page } from 'playwright-core'

/** A picture of one page. */
interface Picture {
  readonly path: string
  readonly options: BrowserContextOptions
  /** Prepares the page. */
  readonly prepare?: (page: Page) => Promise<void>
}

const DASHBOARD = '/ratelimit/dashboard/'
const PANEL = '/ratelimit/admin'
const DESK = { viewport: { width: 1280, height: 860 } }

/** The pictures by the names of their files. */
export const PICTURES: Readonly<Record<string, Picture>> = {
  'dashboard.png': { path: DASHBOARD, options: { viewport: { width: 1280, height: 1264 } } },
  'dashboard-dark.png': {
    path: DASHBOARD,
    options: { viewport: { width: 1280, height: 1264 }, colorScheme: 'dark' },
  },
  'dashboard-phone.png': {
    path: DASHBOARD,
    options: { viewport: { width: 360, height: 1360 }, deviceScaleFactor: 2 },
  },
  'panel-rules.png': {
    path: `${PANEL}/resources/rules`,
    options: DESK,
    prepare: async (page) => page.getByRole('switch').first().waitFor(),
  },
  'panel-rule.png': {
    path: `${PANEL}/resources/rules/records/4/edit`,
    options: { viewport: { width: 1280, height: 1640 } },
    prepare: async (page) => {
      await page.getByLabel('Rate', { exact: true }).fill('10/h')
      await page.getByRole('button', { name: 'Preview on the last 24 hours' }).click()
      await page.getByText('requests matched').first().waitFor()
    },
  },
  'panel-phone.png': {
    path: `${PANEL}/resources/rules`,
    options: { viewport: { width: 360, height: 760 }, deviceScaleFactor: 2 },
    prepare: async (page) => page.getByRole('switch').first().waitFor(),
  },
}

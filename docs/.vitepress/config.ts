/** The site that `npm run docs` builds. A link to a page that does not exist fails the build. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type DefaultTheme, defineConfig } from 'vitepress'
import { headingSlug, listGroups, listPages, type Page } from '../../scripts/docs/pages.js'
import { boostPage, expandWord, isMisspelt } from './search.js'

const DOCS = dirname(dirname(fileURLToPath(import.meta.url)))
const DESCRIPTION = 'Rate limiting for Fastify 5, with rules that operators edit while the server runs'

/** Made from declarations, and not in the repository: without them the site is built, too. */
const TYPES = 'reference/types'

const FRONT_PAGE = {
  layout: 'home',
  hero: {
    name: 'fastify-smart-ratelimit',
    tagline: `${DESCRIPTION}: see who was refused and why, block a client, and prove that it is blocked.`,
    actions: [
      { theme: 'brand', text: 'Tutorial', link: '/start/tutorial' },
      { theme: 'alt', text: 'In your app', link: '/guides/your-app' },
      { theme: 'alt', text: 'Block a client', link: '/guides/overrides' },
    ],
  },
}

function toItem({ path, title }: Page): DefaultTheme.SidebarItem {
  return { text: title, link: `/${path.replace(/(index)?\.md$/, '')}` }
}

/** Returns a group of all pages of a folder, which opens when it is clicked. */
function toFolder(text: string, folder: string): DefaultTheme.SidebarItem {
  return { text, collapsed: true, items: listPages(DOCS, folder).map(toItem) }
}

// biome-ignore lint/style/noDefaultExport: VitePress reads it from there.
export default defineConfig({
  title: 'fastify-smart-ratelimit',
  description: DESCRIPTION,
  lang: 'en',
  outDir: '../dist/site',
  cacheDir: '../dist/site-cache',
  cleanUrls: true,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/mark.svg' }]],
  // Braces are text, as on GitHub: paths such as /rules/{name}.
  markdown: { anchor: { slugify: headingSlug }, headers: { slugify: headingSlug }, attrs: { disable: true } },
  // In kB; the index of the search is loaded by those who search.
  vite: { build: { chunkSizeWarningLimit: 1_000 } },
  // The front page is plain Markdown, which reads well on GitHub; only the site has what stands above it.
  transformPageData: ({ relativePath, frontmatter }) =>
    relativePath === 'index.md' ? { frontmatter: { ...frontmatter, ...FRONT_PAGE } } : undefined,
  themeConfig: {
    logo: '/mark.svg',
    nav: [
      { text: 'Tutorial', link: '/start/tutorial' },
      { text: 'Guides', link: '/#guides' },
      { text: 'Settings', link: '/reference/settings' },
    ],
    search: {
      provider: 'local',
      options: {
        miniSearch: { searchOptions: { processTerm: expandWord, fuzzy: isMisspelt, boostDocument: boostPage } },
      },
    },
    outline: [2, 3],
    sidebar: [
      ...listGroups(DOCS).map(({ title, pages }) => ({ text: title, items: pages.map(toItem) })),
      toFolder('Decisions', 'decisions'),
      ...(existsSync(join(DOCS, TYPES)) ? [toFolder('Types', TYPES)] : []),
    ],
  },
})

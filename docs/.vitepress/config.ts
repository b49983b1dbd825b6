/** The site that `npm run docs` builds. A link to a page that does not exist fails the build. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { headingSlug, listPages } from '../../scripts/docs/pages.js'

const DOCS = dirname(dirname(fileURLToPath(import.meta.url)))

/** The folders of the documentation, each with the pages that come first in it. */
const SECTIONS = [
  { text: 'Start', folder: 'start', first: ['tutorial', 'install'] },
  {
    text: 'Guides',
    folder: 'guides',
    first: [
      'your-app',
      'limits-in-code',
      'overrides',
      'login',
      'tiers',
      'several-limits',
      'api-keys',
      'graphql',
      'uploads',
      'recipes',
    ],
  },
  { text: 'Concepts', folder: 'concepts', first: ['decision', 'algorithms', 'failures'] },
  { text: 'Operations', folder: 'operations', first: ['sizing', 'schedule', 'health', 'backup', 'incidents'] },
  {
    text: 'Reference',
    folder: 'reference',
    first: ['settings', 'rates', 'clients', 'rules', 'conditions', 'commands', 'api'],
  },
  { text: 'Decisions', folder: 'decisions', first: ['index'] },
]

// biome-ignore lint/style/noDefaultExport: VitePress reads it from there.
export default defineConfig({
  title: 'fastify-smart-ratelimit',
  description: 'Rate limiting for Fastify 5, with rules that operators edit while the server runs',
  lang: 'en',
  outDir: '../dist/site',
  cacheDir: '../dist/site-cache',
  cleanUrls: true,
  // Braces are text, as on GitHub: paths such as /rules/{name}.
  markdown: { anchor: { slugify: headingSlug }, headers: { slugify: headingSlug }, attrs: { disable: true } },
  // In kB; the index of the search is loaded by those who search.
  vite: { build: { chunkSizeWarningLimit: 1_000 } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: SECTIONS.map(({ text, folder, first }) => ({
      text,
      items: listPages(DOCS, folder, first).map(({ path, title }) => ({
        text: title,
        link: `/${path.replace(/(index)?\.md$/, '')}`,
      })),
    })),
  },
})

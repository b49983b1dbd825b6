/** The pages of the documentation: their titles, their order, and the names of their headings in links. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Returns the anchor of a heading as GitHub makes it, so that one link works there and on the site. */
export function headingSlug(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-')
}

/** A Markdown file. */
export interface Page {
  /** The path below the folder of the documentation, such as `guides/redis.md`. */
  readonly path: string
  readonly title: string
}

/** Pages that belong together, under a heading of the front page. */
export interface PageGroup {
  readonly title: string
  readonly pages: readonly Page[]
}

/** Returns the groups of the front page: each heading that has a list of pages, whose titles are those of the links. */
export function listGroups(docs: string): readonly PageGroup[] {
  const [, ...sections] = readFileSync(join(docs, 'index.md'), 'utf8').split(/^#{2,} /m)
  return sections
    .map((section) => ({
      title: section.slice(0, section.indexOf('\n')),
      pages: [...section.matchAll(/^- \[(.+?)\]\((.+?)\)/gm)].map(([, title = '', path = '']) => ({ title, path })),
    }))
    .filter(({ pages }) => pages.length > 0)
}

/** Returns the pages of a folder by title. */
export function listPages(docs: string, folder: string): readonly Page[] {
  return readdirSync(join(docs, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ path: join(folder, name), title: parseTitle(readFileSync(join(docs, folder, name), 'utf8')) }))
    .sort((a, b) => a.title.localeCompare(b.title))
}

function parseTitle(markdown: string): string {
  const [, title] = /^# (.+)$/m.exec(markdown) ?? []
  if (title === undefined) throw new Error('A page has no title')
  return title
}

/** The pages of the documentation: their titles, their order, and the names of their headings in links. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'

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

/** Returns the pages of a folder: those with the given names first, the others by title. Throws where one is missing. */
export function listPages(docs: string, folder: string, first: readonly string[] = []): readonly Page[] {
  const order = new Map(first.map((name, index) => [name, index]))
  const position = ({ path }: Page) => order.get(basename(path, '.md')) ?? first.length
  const pages = readdirSync(join(docs, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ path: join(folder, name), title: parseTitle(readFileSync(join(docs, folder, name), 'utf8')) }))
    .sort((a, b) => position(a) - position(b) || a.title.localeCompare(b.title))
  for (const name of first) {
    if (!pages.some(({ path }) => basename(path, '.md') === name)) throw new Error(`${folder} has no page ${name}`)
  }
  return pages
}

function parseTitle(markdown: string): string {
  const [, title] = /^# (.+)$/m.exec(markdown) ?? []
  if (title === undefined) throw new Error('A page has no title')
  return title
}

/** The samples of README and documentation, as they stand in fenced blocks. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Sample {
  /** The file, relative to the package. */
  readonly page: string
  /** The line of its first fence. */
  readonly line: number
  /** `ts`, `js`, `sh`, `json`, … */
  readonly language: string
  /** The words behind the language, such as `output` or `file=app.mjs`. */
  readonly flags: readonly string[]
  readonly code: string
}

/** Pages that are made from declarations, and not committed. */
const TYPES = join('docs', 'reference', 'types')

const FENCE = /^( *)```(\S*)(.*)\n([\s\S]*?)^\1```$/gm

/** Returns the Markdown files whose samples and links are checked, relative to the package. */
export function documentedPages(root: string): readonly string[] {
  const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name))
  return ['README.md', ...pages.filter((name) => !name.startsWith(TYPES))].sort()
}

export function readSamples(root: string, page: string): readonly Sample[] {
  const markdown = readFileSync(join(root, page), 'utf8')
  return [...markdown.matchAll(FENCE)].map(
    ({ index, 1: indent = '', 2: language = '', 3: rest = '', 4: body = '' }) => ({
      page,
      line: markdown.slice(0, index).split('\n').length,
      language,
      flags: rest.split(' ').filter((flag) => flag !== ''),
      code: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  )
}

/** Returns the Markdown without its fenced blocks. */
export function withoutSamples(markdown: string): string {
  return markdown.replaceAll(FENCE, '')
}

/**
 * Returns what a sample printed beside what is documented, where they differ, or null. `…` stands for any text
 * in a line, and alone in a line for any lines.
 */
export function describeDifference(printed: string, documented: string): string | null {
  const pattern = documented
    .trimEnd()
    .split('\n')
    .map((line) => (line.trim() === '…' ? '(?:[^]*?\\n)?' : `${line.split('…').map(escaped).join('.*')} *\\n`))
    .join('')
  if (new RegExp(`^${pattern}$`).test(`${printed.replaceAll('\r', '').trimEnd()}\n`)) return null
  return `prints\n${printed.trimEnd()}\nwhere the page has\n${documented.trimEnd()}`
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

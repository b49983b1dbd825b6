/**
 * The words of the staff pages, each page in one place: `test/staff/pages/<name>.txt` has what readers meet on it, from top
 * to bottom. `UPDATE_PAGES=1` writes the texts anew; the difference is then to be read before it is committed.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DefaultTreeAdapterTypes, parse } from 'parse5'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

type Node = DefaultTreeAdapterTypes.ChildNode
type Element = DefaultTreeAdapterTypes.Element

export const PAGE_TREES = join(PACKAGE_ROOT, 'test/staff/pages')

/** What a run may choose, and what stands for it. */
const VOLATILE: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\b127\.0\.0\.1:\d+/g, '127.0.0.1:PORT'],
  [/\b(token|version|mark|seen)=[\w.:-]{12,}/g, '$1=…'],
]
/** They begin a line. What is not here, a link for instance, is a part of the line around it. */
const BLOCKS = new Set(
  'article aside blockquote details div dl fieldset figure footer form h1 h2 h3 h4 header label legend li main nav ol p pre section summary table ul'.split(
    ' ',
  ),
)
/** What they have is set in below them. */
const INDENTED: ReadonlySet<string> = new Set(['details', 'fieldset', 'form', 'li', 'nav', 'table'])
/** How long a line is to which another one is added. */
const WIDTH = 120
const STAYS = /^(?:$|#|- | |table )|:$/
const SILENT: ReadonlySet<string> = new Set(['script', 'style', 'template', 'noscript'])

interface Shown {
  readonly status: number
  readonly text: string
}

/**
 * Compares a page with its committed text.
 *
 * @param name of the file, without its ending
 * @param part the `id` of the element that is compared, that of the heading that labels it, or its tag; the whole page unless given, but
 * for its header, which all pages share
 */
export function assertPage(name: string, answer: Shown, part?: string): void {
  assertTexts(name, treeOf(answer, part))
}

/** Compares a page as several read it: as the first does, and what differs for each other one, if it is less than all of it. */
export function assertPages(name: string, answers: Readonly<Record<string, Shown>>): void {
  const [[, first] = ['', ''], ...others] = Object.entries(answers).map(
    ([who, answer]) => [who, treeOf(answer)] as const,
  )
  const differing = others.filter(([, tree]) => tree !== first)
  assertTexts(
    name,
    [first, ...differing.map(([who, tree]) => `\n=== ${who}\n${shorter(difference(first, tree), tree)}`)].join(''),
  )
}

function assertTexts(name: string, text: string): void {
  const file = join(PAGE_TREES, `${name}.txt`)
  if (process.env.UPDATE_PAGES === '1') writeFileSync(file, text)
  assert.ok(existsSync(file), `${file} is missing: write it with UPDATE_PAGES=1`)
  const expected = readFileSync(file, 'utf8')
  assert.ok(text === expected, `The page differs from ${file}:\n${difference(expected, text)}`)
}

function shorter(one: string, other: string): string {
  return one.length < other.length ? one : other
}

/** Returns the lines that were taken away and added, each with its sign. */
function difference(before: string, after: string): string {
  const [old, now] = [before.split('\n'), after.split('\n')]
  // The lengths of what the ends of both have in common.
  const common = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0))
  const at = (row: number, column: number) => common[row]?.[column] ?? 0
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = now.length - 1; column >= 0; column--) {
      const longest = Math.max(at(row + 1, column), at(row, column + 1))
      common[row]?.splice(column, 1, old[row] === now[column] ? at(row + 1, column + 1) + 1 : longest)
    }
  }
  const lines: string[] = []
  for (let row = 0, column = 0; row < old.length || column < now.length; ) {
    if (row < old.length && old[row] === now[column]) {
      row++
      column++
    } else if (row < old.length && (column === now.length || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(`- ${old[row++]}`)
    } else lines.push(`+ ${now[column++]}`)
  }
  return `${lines.join('\n')}\n`
}

function treeOf({ status, text }: Shown, part?: string): string {
  return `${status} ${pageTree(text, part)}\n`
}

/** Returns the texts of a page, each with what it is, one a line. */
function pageTree(html: string, part = 'content'): string {
  const all = elementsOf(parse(html))
  const having = (name: string) => all.find((each) => attribute(each, name) === part)
  const root = having('aria-labelledby') ?? having('id') ?? all.find(({ tagName }) => tagName === part)
  const roots = root === undefined && part === 'content' ? all.filter(({ tagName }) => tagName === 'main') : [root]
  const footers = part === 'content' ? all.filter(({ tagName }) => tagName === 'footer') : []
  const lines = [...roots, ...footers].flatMap((each) => {
    assert.ok(each, `The page has no ${part}`)
    return blockLines(each)
  })
  const title = all.find(({ tagName }) => tagName === 'title')
  const tree = [title === undefined ? '' : textOf(title), ...lines].join('\n')
  return VOLATILE.reduce((text, [pattern, name]) => text.replace(pattern, name), tree)
}

function blockLines(element: Element): string[] {
  const { tagName } = element
  if (tagName === 'table') return tableLines(element)
  const lines = linesOf(element.childNodes)
  const [first = '', ...rest] = lines
  const heading = /^h([1-4])$/.exec(tagName)
  if (heading !== null) return ['', `${'#'.repeat(Number(heading[1]))} ${lines.join(' ')}`]
  if (tagName === 'li') return [`- ${first}`, ...indented(rest)]
  if (tagName === 'dl') return inFew(termLines(element))
  if (lines.length === 0) return []
  if (!INDENTED.has(tagName)) return [...labelOf(element), ...inFew(lines)]
  const name = `${tagName}${traits(element)}:`
  const [only = '', ...others] = inFew(lines)
  return others.length === 0 && only.length < WIDTH ? [`${name} ${only}`] : [name, ...indented([only, ...others])]
}

/** Returns short lines behind each other, as far as they fit; headings, tables and what is set in stay where they are. */
function inFew(lines: readonly string[]): string[] {
  const few: string[] = []
  for (const [place, line] of lines.entries()) {
    const [before, after] = [few.at(-1) ?? '', lines[place + 1] ?? '']
    const stays = place === 0 || [before, line].some((each) => STAYS.test(each)) || after.startsWith(' ')
    if (stays || before.length + line.length > WIDTH) few.push(line)
    else few.splice(-1, 1, `${before} · ${line}`)
  }
  return few
}

function linesOf(nodes: readonly Node[]): string[] {
  const lines: string[] = []
  let line = ''
  const end = () => {
    const text = line.replace(/\s+/g, ' ').trim()
    if (text !== '') lines.push(text)
    line = ''
  }
  function add(node: Node): void {
    if (node.nodeName === '#text' && 'value' in node) line += node.value
    if (!('tagName' in node) || SILENT.has(node.tagName)) return
    const inline = inlineText(node)
    if (inline !== undefined) line += inline
    else if (BLOCKS.has(node.tagName)) {
      end()
      lines.push(...blockLines(node))
    } else for (const child of node.childNodes) add(child)
  }
  for (const node of nodes) add(node)
  end()
  return lines
}

/** Returns the text of what is a part of a line and has more to it than its text. */
function inlineText(element: Element): string | undefined {
  const value = (name: string) => attribute(element, name) ?? ''
  switch (element.tagName) {
    case 'a':
      return `[${linesOf(element.childNodes).join(' ')}](${value('href')}${flags(element)})`
    case 'button':
      return ` <${linesOf(element.childNodes).join(' ')}${traits(element)}> `
    case 'input':
    case 'textarea': {
      const text = element.tagName === 'input' ? value('value') : textOf(element)
      return ` {${value('type') === 'hidden' ? 'hidden ' : ''}${value('name')}=${text}${flags(element)}} `
    }
    case 'select': {
      const options = elementsOf(element).filter(({ tagName }) => tagName === 'option')
      const chosen = options.map((each) => `${textOf(each)}${attribute(each, 'selected') === undefined ? '' : '*'}`)
      return ` {${value('name')}: ${chosen.join(', ')}} `
    }
    case 'code':
      return `\`${textOf(element)}\``
    case 'svg': {
      const label = attribute(element, 'aria-label')
      return label === undefined ? '' : ` (picture: ${label}) `
    }
    case 'option':
      return ` ${textOf(element)} `
    case 'br':
      return ' / '
    default:
      return undefined
  }
}

function termLines(list: Element): string[] {
  const lines: string[] = []
  for (const each of elementsOf(list)) {
    const text = linesOf(each.childNodes).join(' ')
    if (each.tagName === 'dt') lines.push(`${text}:`)
    if (each.tagName === 'dd') lines.push(`${lines.pop()} ${text}`)
  }
  return lines
}

/** Rows that are alike but for their first cells are one row and a number. */
function tableLines(table: Element): string[] {
  const lines: string[] = []
  let [last, alike] = ['', 0]
  const endAlike = () => {
    if (alike > 0) lines.push(`  … and ${alike} alike`)
    alike = 0
  }
  for (const each of elementsOf(table)) {
    if (each.tagName === 'caption') lines.push(`table ${textOf(each)}`)
    if (each.tagName !== 'tr') continue
    const cells = each.childNodes.filter((cell) => 'tagName' in cell)
    const [first, ...others] = cells.map((cell) => `${linesOf(cell.childNodes).join('; ')}${flags(cell)}`)
    const rest = others.join(' | ')
    if (rest === last && others.length > 2) alike++
    else {
      endAlike()
      lines.push(`  | ${first} | ${rest} |`)
    }
    last = rest
  }
  endAlike()
  return lines
}

/** Returns what a form or a button sends to where, and what an element is labelled. */
function traits(element: Element): string {
  const value = (name: string) => attribute(element, name)
  const sent = value('name') === undefined ? [] : [`${value('name')}=${value('value') ?? ''}`]
  const target = value('action') ?? value('formaction')
  const method = element.tagName === 'form' ? [value('method') ?? 'get'] : []
  const parts = [
    ...method,
    ...(element.tagName === 'details' ? [] : sent),
    ...(target === undefined ? [] : [`→ ${target}`]),
  ]
  return `${parts.map((part) => ` ${part}`).join('')}${flags(element)}`
}

/** Returns the states that readers are told. */
function flags(element: Element): string {
  const states = [
    'checked',
    'disabled',
    'open',
    'required',
    'aria-current',
    'aria-invalid',
    'aria-sort',
    'download',
    'rel',
  ]
  const present = states.flatMap((name) => {
    const value = attribute(element, name)
    return value === undefined ? [] : [` ${name}${value === '' || value === 'true' ? '' : `=${value}`}`]
  })
  return `${present.join('')}${labelOf(element)
    .map((label) => ` ${label}`)
    .join('')}`
}

function labelOf(element: Element): string[] {
  const label = attribute(element, 'aria-label')
  const role = attribute(element, 'role')
  return [
    ...(role === 'alert' || role === 'status' ? [`${role}:`] : []),
    ...(label === undefined ? [] : [`"${label}"`]),
  ]
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === '' ? line : `  ${line}`))
}

function attribute({ attrs }: Element, name: string): string | undefined {
  return attrs.find((each) => each.name === name)?.value
}

function textOf(node: Node): string {
  if (node.nodeName === '#text' && 'value' in node) return node.value
  const text = 'childNodes' in node ? node.childNodes.map(textOf).join('') : ''
  return text.replace(/\s+/g, ' ').trim()
}

function elementsOf(parent: DefaultTreeAdapterTypes.ParentNode): Element[] {
  return parent.childNodes.flatMap((node) => ('tagName' in node ? [node, ...elementsOf(node)] : []))
}

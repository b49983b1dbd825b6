import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { test } from 'node:test'
import { headingSlug, listGroups } from '../../scripts/docs/pages.js'
import { drawPictures } from '../../scripts/docs/pictures.js'
import { documentedPages, readSamples, withoutSamples } from '../../scripts/docs/samples.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { navigationLinks } from '../../src/staff/shell/navigation.js'

const PAGES = documentedPages(PACKAGE_ROOT)

function readPage(page: string): string {
  return withoutSamples(readFileSync(join(PACKAGE_ROOT, page), 'utf8'))
}

/** Returns where the links and pictures of a page lead, but for other sites. */
function linksOf(page: string): readonly string[] {
  const links = readPage(page).matchAll(/\]\(([^)\s]+)\)|<img src="([^"]+)"/g)
  return [...links].map(([, link, picture]) => link ?? picture ?? '').filter((link) => !/^[a-z]+:/.test(link))
}

function anchorsOf(page: string): readonly string[] {
  return [...readPage(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => headingSlug(heading))
}

/** Returns the file that a link leads to, relative to the package, and the anchor in it. */
function targetOf(page: string, link: string): { readonly path: string; readonly anchor: string | undefined } {
  const [path = '', anchor] = link.split('#')
  return { path: path === '' ? page : normalize(join(dirname(page), path)), anchor }
}

test('every link and picture of README and documentation leads somewhere, to its heading too', () => {
  const dead = PAGES.flatMap((page) =>
    linksOf(page)
      .filter((link) => {
        const { path, anchor } = targetOf(page, link)
        if (!existsSync(join(PACKAGE_ROOT, path))) return true
        // The site has the pages of this folder alone.
        if (page !== 'README.md' && relative('docs', path).startsWith('..')) return true
        return anchor !== undefined && !anchorsOf(path).includes(anchor)
      })
      .map((link) => `${page}: ${link}`),
  )
  assert.deepEqual(dead, [])
  assert.ok(PAGES.flatMap(linksOf).length > 200)
})

test('what is said of any number of processes is said of those that share a store: counters in memory are of one', () => {
  const sentences = PAGES.flatMap((page) => readPage(page).split(/[.;:|](?=\s)|\n/))
  const claims = sentences.filter((sentence) => /\b(?:number of|however many) processes/.test(sentence))
  assert.ok(claims.length >= 3)
  assert.deepEqual(
    claims.filter((claim) => !/\bshares?\b/.test(claim)),
    [],
  )
})

test('every page is found by links from the README', () => {
  const found = new Set(['README.md'])
  for (const page of found) {
    for (const link of linksOf(page)) {
      const { path } = targetOf(page, link)
      if (path.endsWith('.md')) found.add(path)
    }
  }
  assert.deepEqual(
    PAGES.filter((page) => !found.has(page)),
    [],
  )
})

test('the front page, and with it the sidebar of the site, lists every page but the decisions, once', () => {
  const listed = listGroups(join(PACKAGE_ROOT, 'docs')).flatMap(({ pages }) => pages.map(({ path }) => `docs/${path}`))
  const pages = PAGES.filter((page) => !/^README|^docs.(index|decisions.(?!index))/.test(page))
  assert.deepEqual(listed.toSorted(), pages.toSorted())
})

test('every page has one title, and no two headings of the same name', () => {
  for (const page of PAGES) {
    assert.equal(readPage(page).match(/^# /gm)?.length, 1, page)
    assert.equal(new Set(anchorsOf(page)).size, anchorsOf(page).length, page)
  }
})

test('the guide of the dashboard has every page of its navigation in its table', () => {
  const rows = [...readPage('docs/guides/dashboard.md').matchAll(/^\| `[^`]+` \|/gm)].map(([row]) => row)
  const missing = navigationLinks('./', undefined, 'admin').filter(
    ({ href }) => !rows.includes(`| \`${href === './' ? href : href.slice('./'.length)}\` |`),
  )
  assert.deepEqual(missing, [])
})

test('no paragraph, list item or table cell of any page has more than 120 words', () => {
  // A new paragraph begins behind an empty line, a heading or a row, and with each list item and cell.
  const boundary = /\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|(?<=^#.*)\n|\n(?=#)|(?<!\\)\|/m
  const tooLong = PAGES.flatMap((page) =>
    readPage(page)
      .split(boundary)
      .map((paragraph) => paragraph.trim())
      .filter((paragraph) => paragraph.split(/\s+/).length > 120)
      .map((paragraph) => `${page}: ${paragraph.slice(0, 60)}`),
  )
  assert.deepEqual(tooLong, [])
})

test('every guide begins with what one sees or types: a sample, picture, table or list, behind at most 60 words', () => {
  const guides = PAGES.filter((page) => /^docs.(?:guides|start|operations)./.test(page))
  const introduction = (page: string) =>
    readFileSync(join(PACKAGE_ROOT, page), 'utf8').split(/^ *(?:```|\||!\[|[-*] |\d+\. )/m, 1)[0] ?? ''
  assert.deepEqual(
    guides.filter((page) => introduction(page).split(/\s+/).length > 60),
    [],
  )
})

test('no page but the one of the panel leads into the panel', () => {
  const pages = PAGES.filter((page) => page !== join('docs', 'guides', 'panel.md'))
  assert.deepEqual(
    pages.filter((page) => /\/resources\/|\bimages\/panel/.test(readPage(page))),
    [],
  )
})

test('the README begins with what it is, the install line, code, and a picture that moves, below 500 kB', () => {
  const readme = readFileSync(join(PACKAGE_ROOT, 'README.md'), 'utf8')
  const [first = ''] = readme.split(/^## /m)
  assert.deepEqual(
    [...first.matchAll(/^(?:# |```(?=\w)|!\[)/gm)].map(([begins]) => begins),
    ['# ', '```', '```', '!['],
  )
  assert.match(first, /^npm install fastify fastify-smart-ratelimit$/m)
  const picture = /\]\((docs\/images\/[^)]+)\)/.exec(first)?.[1] ?? ''
  const svg = readFileSync(join(PACKAGE_ROOT, picture), 'utf8')
  assert.ok(svg.length < 500_000)
  assert.equal(svg.match(/<image [^>]*href="data:image\/webp;base64,/g)?.length, svg.match(/@keyframes /g)?.length)
  assert.match(svg, /prefers-reduced-motion/)
  assert.ok(readme.split('\n').length <= 121)
})

test('the README has less than 10 kB', () => {
  assert.ok(statSync(join(PACKAGE_ROOT, 'README.md')).size < 10_000)
})

test('every sample has a language that the site can show, and flags that the runner knows', () => {
  const languages = [
    '',
    'diff',
    'dotenv',
    'go',
    'ini',
    'js',
    'json',
    'nginx',
    'python',
    'sh',
    'sql',
    'text',
    'ts',
    'txt',
    'yaml',
  ]
  const flags = /^(output|background|ci|not-run|fragment|file=[\w.-]+)$/
  for (const { page, line, language, flags: own } of PAGES.flatMap((page) => readSamples(PACKAGE_ROOT, page))) {
    assert.ok(languages.includes(language), `${page}:${line} ${language}`)
    for (const flag of own) assert.match(flag, flags, `${page}:${line}`)
  }
})

test('the pictures show what the tables and the algorithms have now', () => {
  for (const [path, svg] of drawPictures(PACKAGE_ROOT)) {
    assert.equal(readFileSync(join(PACKAGE_ROOT, path), 'utf8'), svg, `${path}: run "npm run docs:pictures"`)
  }
})

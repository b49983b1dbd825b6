import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import MiniSearch from 'minisearch'
import { boostPage, expandWord, isMisspelt } from '../../docs/.vitepress/search.js'
import { headingSlug } from '../../scripts/docs/pages.js'
import { documentedPages } from '../../scripts/docs/samples.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

interface Section {
  readonly id: string
  readonly title: string
  readonly titles: readonly string[]
  readonly text: string
}

/** Returns the sections of a page as VitePress indexes them: each heading with the text below it. */
function readSections(page: string): readonly Section[] {
  const [, ...sections] = readFileSync(join(PACKAGE_ROOT, page), 'utf8').split(/^#+ /m)
  const path = page.replace(/^docs/, '').replace(/(index)?\.md$/, '')
  const [top = ''] = sections.map((section) => section.split('\n', 1)[0] ?? '')
  return sections.map((section, index) => {
    const [title = '', ...lines] = section.split('\n')
    const id = index === 0 ? path : `${path}#${headingSlug(title)}`
    return { id: `${id}:${index}`, title, titles: index === 0 ? [] : [top], text: lines.join('\n') }
  })
}

/** Returns a function as the site has it: from its source alone. */
function fromSource<T>(source: T): T {
  return new Function(`return ${String(source)}`)()
}

const index = new MiniSearch<Section>({
  fields: ['title', 'titles', 'text'],
  // The defaults of VitePress, and what the site sets.
  searchOptions: {
    prefix: true,
    boost: { title: 4, text: 2, titles: 1 },
    processTerm: fromSource(expandWord),
    fuzzy: fromSource(isMisspelt),
    boostDocument: fromSource(boostPage),
  },
})
index.addAll(
  documentedPages(PACKAGE_ROOT)
    .filter((page) => page.startsWith('docs'))
    .flatMap(readSections),
)

function find(query: string): readonly string[] {
  return index
    .search(query)
    .slice(0, 5)
    .map(({ id }) => String(id).replace(/[#:].*$/, ''))
}

for (const [query, page] of [
  ['whitelist', '/guides/overrides'],
  ['the limit of a client', '/guides/overrides'],
  ['throttle', '/guides/limits-in-code'],
  ['how do I limit a route?', '/guides/limits-in-code'],
  ['quota', '/guides/usage'],
  ['why was a request rejected', '/guides/why'],
  ['brute force', '/guides/login'],
  ['gdpr', '/reference/commands'],
  ['slack', '/guides/alerts'],
  ['cloudflare', '/guides/proxies'],
  ['valkey', '/guides/redis'],
  ['grafana', '/guides/metrics'],
  ['environment variable', '/reference/settings'],
  ['websockets', '/guides/sockets-and-streams'],
] as const) {
  test(`the search for "${query}" finds ${page}`, () => assert.ok(find(query).includes(page), find(query).join(' ')))
}

test('the guide of overrides comes first for those who want to block a client', () => {
  for (const query of ['block', 'ban ip', 'deny', 'blacklist an ip']) {
    assert.equal(find(query)[0], '/guides/overrides', query)
  }
})

test('words that say nothing find nothing, and a short word is not taken for another one', () => {
  assert.deepEqual(find('how do I do it'), [])
  assert.deepEqual(expandWord('the'), null)
  assert.equal(isMisspelt('ban'), false)
  assert.ok(find('dashbord').includes('/guides/dashboard'))
})

/** A page that shows what strangers wrote makes the browser of staff change nothing, not even on the panel's own origin. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import Fastify from 'fastify'
import { atEnd } from '../support/at-end.js'
import { inChromium, openPage, PLAIN_HOST } from '../support/browser.js'
import { eventually } from '../support/eventually.js'
import { addressesOf } from '../support/panel-addresses.js'
import { formOf, PANEL, startWithPanel } from '../support/panel-app.js'
import { fillPanel, panelContents } from '../support/panel-contents.js'

/** To browsers, a host whose plain http is as good as https. */
const LOCAL = '127.0.0.1'

/** The address of a page whose script, AdminJS's, does the action when the page opens. */
const OPENED = '/resources/rules/bulk/disable?recordIds=1'

/** Whatever in the panel changes something, with a question mark that a further parameter can follow. */
const CHANGES = [
  '/api/resources/rules/bulk/disable?recordIds=1',
  '/api/resources/rules/bulk/enable?recordIds=2',
  '/api/resources/rules/bulk/bulkDelete?recordIds=1',
  '/api/resources/rules/records/1/delete?',
  '/api/resources/rules/records/1/edit?',
  '/api/resources/rules/actions/new?',
  OPENED,
]

/** One of each kind: where a browser says nothing of the site, it is the origin that is looked at, whatever the action. */
const A_FEW = [CHANGES[0], CHANGES[4], OPENED]

/** What a form would say, were it believed. */
const FIELDS: Readonly<Record<string, string>> = {
  name: 'owned',
  pathPattern: '.',
  rate: '0/s',
  isActive: 'false',
}
const INPUTS = Object.entries(FIELDS)
  .map(([name, value]) => `<input name='${name}' value='${value}'>`)
  .join('')

type Markup = (address: string, frame: string) => string

/** What a browser asks for by itself. */
const LOADED: Readonly<Record<string, Markup>> = {
  img: (address) => `<img src="${address}">`,
  iframe: (address) => `<iframe src="${address}"></iframe>`,
  object: (address) => `<object data="${address}"></object>`,
  stylesheet: (address) => `<link rel="stylesheet" href="${address}">`,
  preload: (address) => `<link rel="preload" as="fetch" crossorigin="use-credentials" href="${address}">`,
  video: (address) => `<video src="${address}" preload="auto"></video>`,
}

/** What waits for a click. */
const CLICKED: Readonly<Record<string, Markup>> = {
  link: (address, frame) => `<a href="${address}" target="${frame}">read on</a>`,
  ping: (address, frame) => `<a href="about:blank" ping="${address}" target="${frame}">read on</a>`,
  get: (address, frame) => {
    const [action, parameters] = address.split('?')
    const hidden = [...new URLSearchParams(parameters)].map(
      ([name, value]) => `<input name="${name}" value="${value}">`,
    )
    return `<form action="${action}" target="${frame}">${hidden.join('')}<button>read on</button></form>`
  },
  urlencoded: form('application/x-www-form-urlencoded'),
  multipart: form('multipart/form-data'),
  plain: form('text/plain'),
}

function form(type: string): Markup {
  return (address, frame) =>
    `<form method="post" enctype="${type}" action="${address}" target="${frame}">${INPUTS}<button>read on</button></form>`
}

/** What a script of a page sends, the panel's own aside. */
const SENT: Readonly<Record<string, string>> = {
  'fetch-get': "fetch(address, { credentials: 'include' })",
  'fetch-post': "fetch(address, { method: 'POST', credentials: 'include', body: form })",
  'fetch-no-cors': "fetch(address, { method: 'POST', mode: 'no-cors', credentials: 'include', body: form })",
  beacon: 'navigator.sendBeacon(address, form)',
}

/** A script of another origin may know the header; its browser asks the server first. */
const PRETENDED: Readonly<Record<string, string>> = {
  'fetch-marked':
    "fetch(address, { method: 'POST', credentials: 'include', headers: { 'X-Rate-Limit-Panel': '1' }, body: form })",
}

/** A panel to which every browser is one of staff, beside a page of the same origin and one of another port. */
async function startWithPosts(t: TestContext) {
  let post = ''
  const arrived = new Map<string, unknown>()
  const started = await startWithPanel(t, 'sqlite', {
    admin: { isStaff: () => true },
    before: (app) => {
      app.addHook('onResponse', async ({ url, headers }) => {
        const by = new URL(url, 'http://host').searchParams.get('by')
        if (by !== null) arrived.set(by, headers['sec-fetch-site'])
      })
    },
    after: (app) => {
      app.get('/post', async (_request, reply) => reply.type('text/html').send(post))
    },
  })
  const other = Fastify()
  atEnd(t, () => other.close())
  other.get('/post', async (_request, reply) => reply.type('text/html').send(post))
  const otherOrigin = await other.listen({ port: 0, host: '127.0.0.1' })
  await fillPanel(started.database)
  return { ...started, otherPort: Number(new URL(otherOrigin).port), arrived, write: (html: string) => (post = html) }
}

/** Where the panel is, and where the page is that makes the browser ask it. */
const PLACES = [
  { name: 'a page of the same origin', host: LOCAL, from: LOCAL, samePort: true },
  { name: 'a page of another port', host: LOCAL, from: LOCAL, samePort: false },
  { name: 'a page of another site', host: LOCAL, from: PLAIN_HOST, samePort: false },
  { name: 'without Sec-Fetch-Site a page of the same origin', host: PLAIN_HOST, from: PLAIN_HOST, samePort: true },
  { name: 'without Sec-Fetch-Site a page of another port', host: PLAIN_HOST, from: PLAIN_HOST, samePort: false },
]

inChromium(() => {
  for (const { name: place, host, from, samePort } of PLACES) {
    test(`${place} changes nothing`, async (t) => {
      const { port, otherPort, arrived, write, database } = await startWithPosts(t)
      const { page } = await openPage(t)
      const before = await panelContents(database)
      const changes = host === LOCAL ? CHANGES : A_FEW
      const expected: string[] = []
      const addressFor = (name: string, number: number) => {
        const by = `${name}-${number}`
        expected.push(by)
        return `http://${host}:${port}${PANEL}${changes[number]}&by=${by}`
      }
      const markup = Object.entries({ ...LOADED, ...CLICKED }).flatMap(([name, write]) =>
        changes.map((_, number) => {
          const frame = `${name}-${number}`
          return write(addressFor(name, number), frame) + (name in CLICKED ? `<iframe name="${frame}"></iframe>` : '')
        }),
      )
      write(`<!doctype html><title>A post</title>${markup.join('\n')}`)
      await page.goto(`http://${from}:${samePort ? port : otherPort}/post`)
      await page.evaluate("document.querySelectorAll('a, button').forEach((each) => each.click())")
      for (const [name, script] of Object.entries(samePort ? SENT : { ...SENT, ...PRETENDED })) {
        const addresses = changes.map((_, number) => addressFor(name, number))
        await page.evaluate(`Promise.allSettled(${JSON.stringify(addresses)}.map((address) => {
          const form = new FormData()
          for (const [name, value] of Object.entries(${JSON.stringify(FIELDS)})) form.set(name, value)
          return ${script}
        })).then(() => undefined)`)
      }
      const missing = () => expected.filter((by) => !arrived.has(by))
      await eventually('all requests have been answered', () => missing().length === 0, 60_000).catch(() =>
        assert.deepEqual(missing(), []),
      )
      assert.equal(await panelContents(database), before)
      const says = [...arrived.values()].map((site) => site !== undefined)
      assert.deepEqual(new Set(says), new Set([host === LOCAL]))
    })
  }

  test('a link from another site to the page of an action does not do it', async (t) => {
    const { port, otherPort, arrived, write, database } = await startWithPosts(t)
    const { page } = await openPage(t)
    const before = await panelContents(database)
    const address = `http://${LOCAL}:${port}${PANEL}${OPENED}&by=link`
    write(`<!doctype html><title>A post</title><a href="${address}">read on</a>`)
    await page.goto(`http://${PLAIN_HOST}:${otherPort}/post`)
    await page.getByRole('link').click()
    await page.waitForURL('**/resources/**')
    await page.waitForLoadState('networkidle')
    assert.equal(arrived.get('link'), 'cross-site')
    assert.equal(await panelContents(database), before)
  })
})

test('nothing but the script of the panel makes the browser of staff change anything, by any method', async (t) => {
  const { request, routes, database, asStaff, origin, clock } = await startWithPanel(t, 'sqlite', {
    plugin: { middleware: { backend: 'memory' } },
  })
  await fillPanel(database)
  const { cookie } = await asStaff()
  const form = await formOf({ name: 'owned', isActive: 'false', rate: '0/s', pathPattern: '.', apply: 'true' })
  const before = await panelContents(database)
  const marked = { 'x-rate-limit-panel': '1' }
  const forged = [
    // What pages of the same origin hold: an image, a link that is clicked, a frame, a form, a ping, a script.
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe', origin },
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'empty', origin },
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty', origin },
    // The same over plain http.
    { origin },
    { referer: `${origin}${PANEL}/resources/rules` },
    {},
    // What other sites send, should a policy for CORS let them.
    { ...marked, 'sec-fetch-site': 'cross-site' },
    { ...marked, 'sec-fetch-site': 'same-site', origin },
    { ...marked, 'sec-fetch-site': 'none' },
    { ...marked, origin: 'https://evil.example' },
    { ...marked, origin: origin.replace('http:', 'https:') },
    { ...marked, origin: 'null' },
  ]
  const addresses = [...new Set(routes.filter(({ url }) => url.includes('/api/')).flatMap(addressesOf))]
  for (const [place, address] of addresses.entries()) {
    // What reads is asked by one of them in turn: nothing but POST changes anything.
    const asked = ['GET', 'POST'].flatMap((method) =>
      forged
        .filter((_, turn) => method === 'POST' || turn === place % forged.length)
        .map(async (headers) => {
          const sent = { cookie, 'content-type': form.contentType, ...headers }
          const body = method === 'POST' ? { body: form.body } : {}
          const answer = await request(address, { method, headers: sent, ...body })
          assert.ok(answer.status >= 400, `${method} ${address}: ${answer.status}`)
        }),
    )
    await Promise.all(asked)
    clock.advance(asked.length * 1_500)
  }
  assert.equal(await panelContents(database), before)
})

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { PANEL, startWithPanel } from '../support/panel-app.js'

test('the files of the panel are compressed, and sent again only when they changed', async (t) => {
  const { app, asStaff } = await startWithPanel(t, 'sqlite')
  const { cookie } = await asStaff()
  for (const file of ['app.bundle.js', 'components.bundle.js', 'panel.css', 'icomoon.css', 'icomoon.woff']) {
    const get = (headers: Readonly<Record<string, string>>) =>
      app.inject({ url: `${PANEL}/frontend/assets/${file}`, headers: { cookie, ...headers } })
    const plain = await get({})
    assert.equal(plain.statusCode, 200, file)
    assert.equal(plain.headers['content-encoding'], undefined)
    const isText = !file.endsWith('.woff')
    for (const [accepted, encoding, unpack] of [
      ['gzip, deflate, br', 'br', brotliDecompressSync],
      ['gzip, br;q=0', 'gzip', gunzipSync],
    ] as const) {
      const answer = await get({ 'accept-encoding': accepted })
      assert.equal(answer.headers['content-encoding'], isText ? encoding : undefined, file)
      assert.equal(answer.headers.vary, 'accept-encoding')
      if (isText) assert.ok(unpack(answer.rawPayload).equals(plain.rawPayload))
      const again = await get({ 'accept-encoding': accepted, 'if-none-match': String(answer.headers.etag) })
      assert.deepEqual([again.statusCode, again.rawPayload.length], [304, 0])
      const changed = await get({ 'accept-encoding': accepted, 'if-none-match': '"another"' })
      assert.equal(changed.statusCode, 200)
    }
  }
  const stranger = await app.inject({ url: `${PANEL}/frontend/assets/app.bundle.js` })
  assert.equal(stranger.statusCode, 403)
})

test('the scripts of the panel weigh what its guide says, whatever NODE_ENV is', async (t) => {
  const { app, asStaff } = await startWithPanel(t, 'sqlite')
  const { cookie } = await asStaff()
  const page = await app.inject({ url: `${PANEL}/resources/rules`, headers: { cookie } })
  const scripts = [...page.payload.matchAll(/<script[^>]* src="([^"]+)"/g)].map(([, url = '']) => url)
  assert.ok(scripts.length > 3)
  const weights = await Promise.all(
    scripts.map(async (url) => {
      const answer = await app.inject({ url, headers: { cookie, 'accept-encoding': 'br' } })
      return answer.rawPayload.length
    }),
  )
  const megabytes = weights.reduce((sum, weight) => sum + weight) / 1e6
  const guide = readFileSync(join(PACKAGE_ROOT, 'docs', 'guides', 'panel.md'), 'utf8')
  assert.equal(/needs JavaScript \(([\d.]+) MB, compressed\)/.exec(guide)?.[1], megabytes.toFixed(2))
})

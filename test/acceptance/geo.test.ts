/** Rules ask for the country and the network operator of a client, which files in the format of MaxMind DB know. */
import assert from 'node:assert/strict'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { countries, operators } from '../../scripts/bench/mmdb.js'
import { dashboardPlugin } from '../../src/dashboard.js'
import { type RateLimitOptions, RuleValidationError } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { ERROR, openDatabase, startApp } from '../support/build-app.js'
import { unescapeHtml } from '../support/client-forms.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { runApps } from '../support/optional-peers.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const GERMAN = '203.0.113.7'
const FRENCH = '2001:db8:f::1'
const UNKNOWN = '198.51.100.1'
const COUNTRIES = { '203.0.113.0/24': 'DE', '2001:db8:f::/48': 'FR' }
const OPERATORS = { '203.0.113.0/24': [64_500, 'Example <b>Net</b>'] } as const
/** More than the interval between two inspections of the files. */
const INSPECTION_MS = 5_000

async function geoFiles(t: TestContext, names: Parameters<typeof operators>[0] = OPERATORS) {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-geo-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  const geo = { country: join(folder, 'country.mmdb'), asn: join(folder, 'asn.mmdb') }
  await writeFile(geo.country, countries(COUNTRIES))
  await writeFile(geo.asn, operators(names))
  return geo
}

/** Returns a file whose tree and metadata are whole, and whose records are not. */
function damaged(file: Buffer): Buffer {
  const bytes = Buffer.from(file)
  return bytes.fill(0xff, bytes.indexOf('country') - 2, bytes.indexOf('MaxMind.com') - 3)
}

async function startWith(
  t: TestContext,
  provider: Provider,
  conditions: readonly string[],
  plugin: RateLimitOptions = {},
) {
  const database = await openDatabase(t, provider)
  for (const [index, condition] of conditions.entries()) {
    const data = { name: `rule-${index}`, pathPattern: '^/', rate: `${index + 1}1/m`, priority: -index, condition }
    await database.client.rateLimitRule.create({ data })
  }
  const app = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, middleware: { defaultRate: '1000/m' }, ...plugin },
  })
  const limitOf = async (ip: string) => (await app.request('/x', { from: ip })).headers['x-ratelimit-limit']
  return { ...app, database, limitOf }
}

forAnyDatabase((provider) => {
  test('rules hold for a country and for a network operator; an address without a match has neither', async (t) => {
    const geo = await geoFiles(t)
    const { limitOf, log, app } = await startWith(
      t,
      provider,
      [
        "client.country == 'DE' && client.asn == 64500",
        "client.country in ['FR', 'IT']",
        "client.country == '' && client.asn == 0",
      ],
      { geo },
    )

    assert.equal(await limitOf(GERMAN), '11')
    assert.equal(await limitOf(FRENCH), '21')
    assert.equal(await limitOf(UNKNOWN), '31')
    const explained = await app.smartRateLimit.explain({ path: '/x', ip: FRENCH })
    assert.equal(explained.decided_by, 'rule-1')
    assert.deepEqual(log, [])
  })

  test('the address counts before it is hidden, and the event has neither country nor operator', async (t) => {
    const geo = await geoFiles(t)
    const privacy = { addresses: 'pseudonym' } as const
    const { limitOf, app, database } = await startWith(t, provider, ["client.country == 'DE'"], {
      geo,
      privacy,
      hashSecret: 'a secret of at least sixteen characters',
      logEvents: true,
    })

    assert.equal(await limitOf(GERMAN), '11')
    await app.smartRateLimit.events.flush()
    const [event] = await database.client.rateLimitEvent.findMany()
    assert.doesNotMatch(
      JSON.stringify(event, (_, value) => (String(value) === '[object Object]' ? value : String(value))),
      /"DE"|64500|203\.0\.113/,
    )
  })

  test('without files, a stored rule that asks for them is left out and logged once, and no other can be saved', async (t) => {
    const { limitOf, log, database, app } = await startWith(t, provider, ["client.country == 'DE'"])
    const reason =
      'condition: client.country is not known, since this app has no setting "geo.country": give geo: { country: \'./country.mmdb\' }, or leave client.country out'

    assert.equal(await limitOf(GERMAN), '1000')
    app.smartRateLimit.rules.invalidateCache()
    assert.equal(await limitOf(GERMAN), '1000')
    assert.deepEqual(
      log.map((line) => Reflect.get(line, 'reason')),
      [reason],
    )

    const { rateLimitRule } = database.client
    const isRefused = (error: unknown) =>
      error instanceof RuleValidationError && /has no setting "geo\.asn"/.test(error.errors.condition ?? '')
    const rule = { name: 'operator', pathPattern: '^/', rate: '5/m', condition: 'client.asn == 64500' }
    await assert.rejects(rateLimitRule.create({ data: rule }), isRefused)
    await rateLimitRule.create({ data: { ...rule, condition: '' } })
    await assert.rejects(
      rateLimitRule.update({ where: { name: 'operator' }, data: { condition: rule.condition } }),
      isRefused,
    )
    // A rule that is left out can still be switched off.
    await rateLimitRule.update({ where: { name: 'rule-0' }, data: { isActive: false } })
    await assert.rejects(app.smartRateLimit.rules.import({ version: 1, rules: [rule] }), (error: unknown) => {
      assert.match(JSON.stringify(Reflect.get(Object(error), 'errors')), /rules\[0\]\.condition.*geo\.asn/)
      return true
    })
  })

  test('a preview reads the country where the log has addresses, and leaves the request uncovered where not', async (t) => {
    const geo = await geoFiles(t)
    // Of IPv6 the log has the network.
    for (const [addresses, covered, uncovered] of [
      ['full', 3, 1],
      ['pseudonym', 0, 4],
    ] as const) {
      const { limitOf, app } = await startWith(t, provider, [], {
        geo,
        privacy: { addresses },
        hashSecret: 'a secret of at least sixteen characters',
        logEvents: true,
      })
      for (let count = 0; count < 3; count++) await limitOf(GERMAN)
      await limitOf(FRENCH)
      await app.smartRateLimit.events.flush()
      const candidate = { name: 'germans', pathPattern: '^/', rate: '1/m', condition: "client.country == 'DE'" }
      const preview = await app.smartRateLimit.rules.preview(candidate, { hours: 1 })
      assert.deepEqual(
        [preview.matched, preview.uncovered.reasons.condition_not_logged],
        [covered, uncovered],
        JSON.stringify(preview),
      )
    }
  })

  test('a preview refuses a candidate that asks for a file or a list that the app has not', async (t) => {
    const { country } = await geoFiles(t)
    const { app } = await startWith(t, provider, [], { geo: { country }, logEvents: true })
    const problemOf = async (condition: string) => {
      const candidate = { name: 'candidate', pathPattern: '^/', rate: '1/m', condition }
      const refused: unknown = await app.smartRateLimit.rules.preview(candidate).catch((error: unknown) => error)
      return refused instanceof RuleValidationError ? refused.errors : 'previewed'
    }

    assert.deepEqual(await problemOf('client.asn == 64500'), {
      condition:
        'client.asn is not known, since this app has no setting "geo.asn": give geo: { asn: \'./asn.mmdb\' }, or leave client.asn out',
    })
    assert.match(JSON.stringify(await problemOf("inList(client.ip, 'tor')")), /^\{"condition":"the list .*tor/)
    assert.equal(await problemOf("client.country == 'DE'"), 'previewed')
  })

  test('pages show country and operator beside addresses where files are configured, escaped, and their dates', async (t) => {
    const geo = await geoFiles(t, { '203.0.113.0/24': [64_500, '<b>&"x'] })
    const shown = 'DE · AS64500 &lt;b&gt;&amp;&quot;x'
    for (const plugin of [{ geo }, {}]) {
      const { request, app } = await startWithStaff(t, provider, { isStaff: () => true }, plugin)
      for (const from of [UNKNOWN, GERMAN]) await request('/a', { from })
      await app.smartRateLimit.events.flush()
      const events = await request(`${DASHBOARD}events.html`)
      const [, logged = ''] = /href="(explain\.html\?[^"]*203\.0\.113\.7[^"]*)"/.exec(events.text) ?? []
      for (const page of [
        `client.html?client=ip:${GERMAN}`,
        'events.html',
        `explain.html?method=GET&path=/a&ip=${GERMAN}`,
        unescapeHtml(logged),
      ]) {
        const { status, text } = await request(DASHBOARD + page)
        assert.equal(status, 200, page)
        assert.equal(text.split(shown).length - 1, 'geo' in plugin ? 1 : 0, page)
        assert.doesNotMatch(text, /<b>&|AS0/, page)
      }
      const { text } = await request(DASHBOARD)
      const dates = Array.from(text.matchAll(/<dt>(File of [^<]+)<\/dt><dd>([^<]+)<\/dd>/g), ([, ...row]) =>
        row.join(': '),
      )
      const built = ['File of countries: built on 2026-11-20', 'File of network operators: built on 2026-11-20']
      assert.deepEqual(dates, 'geo' in plugin ? built : [])
    }
  })

  test('the list of rules says which rules are left out for want of a file, and why', async (t) => {
    const geo = await geoFiles(t)
    const database = await openDatabase(t, provider)
    for (const [name, condition] of [
      ['germans', "client.country == 'DE'"],
      ['clouds', 'client.asn == 64500'],
    ] as const) {
      await database.client.rateLimitRule.create({ data: { name, pathPattern: '^/', rate: '5/m', condition } })
    }
    const { request } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true, geo: { country: geo.country } },
      routes: (app) => void app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true }),
    })

    const { text } = await request(`${DASHBOARD}rules.html`)
    assert.equal(text.split('>Left out<').length - 1, 1)
    assert.match(unescapeHtml(text), /client\.asn is not known, since this app has no setting "geo\.asn"/)
  })
})

test('a file that is replaced is read again; a truncated one is not, is logged once, and health says so', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const geo = await geoFiles(t)
  const { limitOf, log, app } = await startWith(t, 'sqlite', ["client.country == 'DE'", "client.country == 'AT'"], {
    geo,
  })
  const replaceBy = async (bytes: Buffer) => {
    await writeFile(`${geo.country}.new`, bytes)
    await rename(`${geo.country}.new`, geo.country)
  }
  const health = async () => (await app.smartRateLimit.health()).checks.geo
  /** Lets the files be inspected until something is true. */
  const inspected = (what: string, happened: () => Promise<boolean>) =>
    eventually(what, async () => {
      t.mock.timers.tick(INSPECTION_MS)
      return happened()
    })
  assert.deepEqual(await health(), {
    status: 'ok',
    detail: 'country: Test-Country, built on 2026-11-20; asn: Test-ASN, built on 2026-11-20',
  })
  assert.equal(await limitOf(GERMAN), '11')

  const austrian = countries({ '203.0.113.0/24': 'AT' }, { builtAt: new Date('2026-11-25T12:00:00Z') })
  const half = austrian.subarray(0, austrian.length / 2)
  const withHole = Buffer.concat([austrian.subarray(0, 64), austrian.subarray(256)])
  const broken = [
    half,
    withHole,
    damaged(austrian),
    operators(OPERATORS),
    Buffer.alloc(0),
    Buffer.from('<html>No</html>'),
  ]
  for (const bytes of broken) {
    await replaceBy(bytes)
    await inspected('a broken file is told of', async () => (await health()).status === 'failing')
    assert.equal(await limitOf(GERMAN), '11')
    assert.match(
      (await health()).detail,
      /^country cannot be read: .* \(in use: country: Test-Country, built on 2026-11-20/,
    )
  }
  await rm(geo.country)
  await inspected('a missing file is told of', async () => /ENOENT/.test((await health()).detail))
  assert.equal(await limitOf(GERMAN), '11')
  const told = log.filter(({ level }) => level === ERROR)
  assert.deepEqual(
    told.map(({ msg }) => msg),
    ['Rate limits cannot read the file of "geo.country": that of 2026-11-20 stays'],
  )

  await replaceBy(austrian)
  await inspected('the new file is read', async () => (await health()).status === 'ok')
  assert.equal(await limitOf(GERMAN), '21')
  assert.match((await health()).detail, /country: Test-Country, built on 2026-11-25/)
})

test('files that cannot be read are refused at start with the setting, the value and the remedy', async (t) => {
  const geo = await geoFiles(t)
  await writeFile(geo.asn, operators(OPERATORS).subarray(0, 100))
  const damagedPath = join(dirname(geo.country), 'damaged.mmdb')
  await writeFile(damagedPath, damaged(countries(COUNTRIES)))
  const memory = { middleware: { backend: 'memory' } }
  const apps = [
    { ...memory, geo: { country: './nowhere.mmdb' } },
    { ...memory, geo: { asn: geo.asn } },
    { ...memory, geo: {} },
    { ...memory, geo: { city: './city.mmdb' } },
    { ...memory, geo: { country: damagedPath } },
    { ...memory, geo: { asn: geo.country } },
    { ...memory, geo: { country: geo.country } },
    { ...memory, enabled: false, geo: { country: './nowhere.mmdb' } },
  ]
  const { stdout } = await runApps(t, apps)

  const [missing, truncated, none, unknown, broken, wrongKind, good, off] = stdout.trimEnd().split('\n')
  assert.match(
    missing ?? '',
    /INVALID_SETTING Setting "geo\.country" is "\.\/nowhere\.mmdb", which cannot be read: ENOENT.*Give the path of a file/,
  )
  assert.match(truncated ?? '', /Setting "geo\.asn" is ".*asn\.mmdb", which cannot be read: it is not a whole file/)
  assert.match(none ?? '', /Setting "geo" has no file: give \{ country/)
  assert.match(unknown ?? '', /geo\.city/)
  assert.match(broken ?? '', /Setting "geo\.country" is ".*damaged\.mmdb", which cannot be read: it is damaged/)
  assert.match(wrongKind ?? '', /Setting "geo\.asn" is .*, which cannot be read: none of its records .* "Test-Country"/)
  assert.deepEqual([good, off], ['remaining 99', 'remaining undefined'])
})

test('maxmind is asked for where files are configured, and nowhere else', async (t) => {
  const geo = await geoFiles(t)
  const memory = { middleware: { backend: 'memory' } }
  const { stdout } = await runApps(t, [memory, { ...memory, geo }], 'maxmind')

  assert.match(
    stdout,
    /^remaining 99\nFST_RATE_LIMIT_INVALID_SETTING Setting "geo" needs the package maxmind, 5\.0\.0 or later: run "npm install maxmind"/,
  )
})

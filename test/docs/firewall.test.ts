/** The guide that hands bans to nftables: the script and the rules of its page, in a network of their own. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSamples } from '../../scripts/docs/samples.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { atEnd } from '../support/at-end.js'
import { openTestDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { runModule } from '../support/scripts.js'

const BANNED = ['203.0.113.7', '198.51.100.20', '2001:db8:1:2::5']
const OTHERS = ['203.0.113.8', '192.0.2.1', '2001:db8:1:3::5']
const SERVERS = ['203.0.113.254', '2001:db8::254']

/** Asks the server from each address, and prints the addresses that got an answer. */
const PROBE = `
  import { createServer, get } from 'node:http'
  const open = (host) => new Promise((done) => { const server = createServer((_, answer) => answer.end()).listen(80, host, () => done(server)) })
  const servers = await Promise.all(${JSON.stringify(SERVERS)}.map(open))
  const ask = (localAddress) => new Promise((done) => {
    const host = localAddress.includes(':') ? '${SERVERS[1]}' : '${SERVERS[0]}'
    get({ host, localAddress, timeout: 500 }, (answer) => done(answer.resume().statusCode === 200 ? [localAddress] : []))
      .on('timeout', (event) => done([])).on('error', () => done([]))
  })
  console.log(JSON.stringify((await Promise.all(${JSON.stringify([...BANNED, ...OTHERS])}.map(ask))).flat()))
  process.exit()
`

function canFilter(): boolean {
  try {
    execFileSync('unshare', ['-n', 'sh', '-c', 'ip link set lo up && nft list ruleset'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** A file as the page has it. */
function documented(file: string): string {
  const samples = readSamples(PACKAGE_ROOT, join('docs', 'guides', 'firewall.md'))
  const sample = samples.find(({ flags }) => flags.includes(`file=${file}`))
  assert.ok(sample !== undefined, `the page has no ${file}`)
  return sample.code
}

test(
  'the script of the guide makes nftables drop what comes from denied addresses, and nothing else',
  long(canFilter() ? false : 'no nft here, or no right to a network of its own'),
  async (t) => {
    const { client, url, close } = await openTestDatabase('sqlite', undefined, undefined)
    atEnd(t, close)
    const folder = await mkdtemp(join(tmpdir(), 'firewall-'))
    atEnd(t, () => rm(folder, { recursive: true }))
    const create = (of: string, effect: string, rest = {}) =>
      client.rateLimitOverride.create({ data: { client: of, effect, ...rest } })
    await create('203.0.113.7', 'deny', { for: '2h' })
    await create('198.51.100.0/24', 'deny', { pathPattern: '^' })
    await create('198.51.100.20', 'deny', { for: '1h' })
    await create('2001:db8:1:2::/64', 'deny')
    await create('203.0.113.8', 'deny', { pathPattern: '^/api/' })
    await create('192.0.2.1', 'allow')
    await create('user:7', 'deny')

    const source = documented('to-nft.mjs').replace("'fastify-smart-ratelimit'", `'${moduleUrl('src/index')}'`)
    const { status, stdout, stderr } = await runModule(source, { env: { RATELIMIT_DATABASE_URL: url } })
    assert.equal(status, 0, stderr)
    const files = { 'probe.mjs': PROBE, 'ratelimit.nft': documented('ratelimit.nft'), 'commands.nft': stdout }
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
    const addresses = [...SERVERS, ...BANNED, ...OTHERS].map((address) => `ip addr add ${address} dev lo`)
    const probe = `"${process.execPath}" probe.mjs`
    // The second run replaces what the first one left.
    const commands = ['nft -f ratelimit.nft', probe, 'nft -f commands.nft', 'nft -f commands.nft', probe]
    const script = ['ip link set lo up', ...addresses, ...commands].join(' && ')
    const answers = execFileSync('unshare', ['-n', 'sh', '-c', script], { cwd: folder, encoding: 'utf8' })
    assert.deepEqual(
      answers
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
      [[...BANNED, ...OTHERS], OTHERS],
    )
  },
)

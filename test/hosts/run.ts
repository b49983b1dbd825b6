/**
 * Installs the packed package in empty projects, as hosts of many kinds do it, and drives them over HTTP.
 *
 * `npm run test:hosts` runs all of them, `-- quick` those that every change has to pass, `-- none cluster` some by name.
 * `HOSTS_TARBALL` names the tarball; without it the checkout is packed. PostgreSQL is found as in the tests.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Host } from './host.js'
import { checkHost } from './project.js'

/** Much of the time goes by while npm installs. */
const AT_ONCE = 3

const FOLDER = join(import.meta.dirname, 'hosts')
const names = readdirSync(FOLDER).map((file) => file.replace(/\.[jt]s$/, ''))
const asked = process.argv.slice(2)
const unknown = asked.filter((name) => name !== 'quick' && !names.includes(name))
if (unknown.length > 0) throw new Error(`No such host: ${unknown.join(', ')}. There are: ${names.join(', ')}`)

const packed = mkdtempSync(join(tmpdir(), 'ratelimit-packed-'))
let passed = 0
let failed = 0
try {
  const tarball = process.env.HOSTS_TARBALL === undefined ? pack() : resolve(process.env.HOSTS_TARBALL)
  const queue = names.values()
  await Promise.all(Array.from({ length: AT_ONCE }, () => checkAll(queue, tarball)))
} finally {
  rmSync(packed, { recursive: true, force: true })
}
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0

async function checkAll(queue: Iterable<string>, tarball: string): Promise<void> {
  for (const name of queue) {
    const { host }: { host: Host } = await import(
      new URL(`hosts/${name}${import.meta.url.slice(-3)}`, import.meta.url).href
    )
    const isAsked = asked.length === 0 || asked.includes(name) || (asked.includes('quick') && host.isQuick === true)
    if (isAsked) await check(name, host, tarball)
  }
}

async function check(name: string, host: Host, tarball: string): Promise<void> {
  const startedMs = performance.now()
  const seconds = () => `${((performance.now() - startedMs) / 1_000).toFixed(1)} s`
  try {
    await checkHost(host, tarball)
    passed++
    console.log(`✔ ${name} (${seconds()})`)
  } catch (error) {
    failed++
    console.log(`✖ ${name} (${seconds()})`, error)
  }
}

function pack(): string {
  execFileSync('npm', ['pack', '--silent', '--pack-destination', packed], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [file = ''] = readdirSync(packed)
  return join(packed, file)
}

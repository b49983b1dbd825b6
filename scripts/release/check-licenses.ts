/** Fails where a package that is installed with this one, or bundled into it, has a license that is not on the list. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

const ALLOWED = new Set(['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'MIT-0'])
/** The folders with what `scripts/generate.ts` bundles. */
const BUNDLES = ['src/generated', 'src/database/generated/prisma', 'admin/generated']

interface LockedPackage {
  readonly dev?: boolean
  readonly license?: string
}

const { packages }: { packages: Record<string, LockedPackage> } = JSON.parse(
  readFileSync(join(PACKAGE_ROOT, 'package-lock.json'), 'utf8'),
)

/** Returns the packages whose licenses were written beside a bundle. */
function bundledIn(folder: string): string[] {
  const texts = readFileSync(join(PACKAGE_ROOT, folder, 'LICENSES.txt'), 'utf8').split(`${'-'.repeat(80)}\n\n`)
  return texts.flatMap((text) => text.slice(0, text.indexOf('\n')).split(', '))
}

/** A license is one name, or a choice such as `(MIT OR CC0-1.0)`. */
function isAllowed(license: string): boolean {
  return license
    .replace(/[()]/g, '')
    .split(' OR ')
    .some((name) => ALLOWED.has(name))
}

const bundled = new Set(BUNDLES.flatMap(bundledIn).map((name) => `node_modules/${name}`))
const shipped = Object.entries(packages).filter(
  ([path, { dev }]) => path.startsWith('node_modules/') && (dev !== true || bundled.has(path)),
)
const wrong = shipped.filter(([, { license = '' }]) => !isAllowed(license))
for (const [path, { license = 'no license' }] of wrong) {
  console.error(
    `${path.slice('node_modules/'.length)} has ${license}, which is not on the list of scripts/release/check-licenses.ts`,
  )
}
const missing = [...bundled].filter((path) => packages[path] === undefined)
if (missing.length > 0) throw new Error(`package-lock.json lacks ${missing.join(', ')}`)
console.log(`${shipped.length} packages, ${wrong.length} with a license that is not on the list`)
process.exitCode = wrong.length === 0 ? 0 : 1

/**
 * Fails where CHANGELOG.md has nothing under Unreleased. For a release, with RELEASE=true, it fails where the version of
 * package.json has nothing instead.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

const { version }: { version: string } = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
const sections = readFileSync(join(PACKAGE_ROOT, 'CHANGELOG.md'), 'utf8').split(/^## /m)
const wanted = process.env.RELEASE === 'true' ? version : 'Unreleased'
const section = sections.find((text) => text.startsWith(`[${wanted}]`))
const entries = section?.match(/^- \S.*$/gm) ?? []
if (entries.length === 0) {
  console.error(`CHANGELOG.md has no entry under [${wanted}]: say there what changes for hosts and operators`)
  process.exitCode = 1
}
console.log(`${entries.length} entries under [${wanted}]`)

/** Prints what is installed with this package, as CycloneDX. npm names the package after the folder that it is in. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

const OPTIONS = ['--omit', 'dev', '--package-lock-only', '--sbom-type', 'library', '--sbom-format', 'cyclonedx']

const { name }: { name: string } = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
const document: { metadata: { component: { name: string } } } = JSON.parse(
  execFileSync('npm', ['sbom', ...OPTIONS], {
    cwd: PACKAGE_ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }),
)
document.metadata.component.name = name
console.log(JSON.stringify(document, null, 2))

/**
 * Installs the SQLite driver of the versions of Node that need an older one, after `npm ci` in a checkout. It may have
 * to be compiled, which all others are spared.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const NAME = 'better-sqlite3-node20'
const root = join(import.meta.dirname, '..')
const isInstalled = existsSync(join(root, 'node_modules', NAME, 'build', 'Release', 'better_sqlite3.node'))

if (Number(process.versions.napi) < 10 && !isInstalled) {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const npm = process.env.npm_execpath
  if (npm === undefined) throw new Error('Run "npm run prepare", which says where npm is')
  // The lock file has it for nobody. Its script compiles it, which package.json allows no other version of the driver.
  const options = ['--no-save', '--no-package-lock', '--no-audit', '--no-fund', '--allow-scripts=better-sqlite3']
  const { status } = spawnSync(process.execPath, [npm, 'install', ...options, `${NAME}@${peerDependencies[NAME]}`], {
    cwd: root,
    stdio: 'inherit',
  })
  process.exitCode = status ?? 1
}

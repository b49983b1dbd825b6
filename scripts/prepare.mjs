/**
 * Installs the SQLite driver of the versions of Node that need an older one, after `npm ci` in a checkout. It is
 * downloaded or compiled, which all other versions are spared.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const NAME = 'better-sqlite3-node20'
const root = join(import.meta.dirname, '..')
const folder = join(root, 'node_modules', NAME)
const isInstalled = existsSync(join(folder, 'build', 'Release', 'better_sqlite3.node'))

if (Number(process.versions.napi) < 10 && !isInstalled) {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  // As a development dependency: npm installs no optional peer, even if it is named.
  const options = ['--save-dev', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  const isReady =
    npm(root, 'install', ...options, `${NAME}@${peerDependencies[NAME]}`) &&
    // package.json allows no script of the driver, since that of the newer one would only look for a compiler.
    npm(folder, 'run', 'install')
  // All but SQLite works without it, and what needs it says so.
  if (!isReady) {
    process.stderr.write(
      'The SQLite driver of Node.js 20 was not installed. Install g++, make and python3, and run "npm ci" again, ' +
        'or use Node.js 22.14 or later, for which nothing is compiled.\n',
    )
  }
}

function npm(cwd, ...args) {
  const command = process.env.npm_execpath
  if (command === undefined) throw new Error('Run this script by "npm run prepare"')
  const { status } = spawnSync(process.execPath, [command, ...args], { cwd, stdio: 'inherit' })
  return status === 0
}

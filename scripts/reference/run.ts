/**
 * Writes the pages of docs/reference that follow from the code. With `--check` it writes nothing, and fails where a
 * committed page is not what the code says.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { apiPage, checksPage } from './api-page.js'
import { commandsPage } from './commands-page.js'
import { metricsPage } from './metrics-page.js'
import { settingsPage } from './settings-page.js'
import { tablesPage } from './tables-page.js'

const FOLDER = join(PACKAGE_ROOT, 'docs', 'reference')

const pages = {
  'settings.md': settingsPage(),
  'commands.md': commandsPage(),
  'api.md': await apiPage(),
  'checks.md': await checksPage(),
  'metrics.md': metricsPage(),
  'tables.md': tablesPage(),
}

await mkdir(FOLDER, { recursive: true })
for (const [name, text] of Object.entries(pages)) {
  const file = join(FOLDER, name)
  if (!process.argv.includes('--check')) {
    await writeFile(file, text)
  } else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`docs/reference/${name} is not what the code says: run "npm run docs:reference"`)
    process.exitCode = 1
  }
}

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { packagePath } from '../src/ground/package-root.js'

const FOLDER = packagePath('admin', 'components')

/** The style sheets of the panel: what it shares with the dashboard, and that of the components. */
const STYLE_SHEETS = [packagePath('templates', 'shell.css'), join(FOLDER, 'panel.css')]

/** Parts of AdminJS's page that are the panel's own components. Its sidebar is empty: the navigation is above the page. */
const REPLACED = {
  DashboardRoute: 'AdminJS.UserComponents.RateLimitHome',
  DefaultEditAction: 'AdminJS.UserComponents.PanelForm',
  DefaultNewAction: 'AdminJS.UserComponents.PanelForm',
  Sidebar: '() => null',
}

export function panelStyles(): string {
  return STYLE_SHEETS.map((file) => readFileSync(file, 'utf8')).join('\n')
}

/** Returns the files of the panel's components by name. AdminJS's own bundler accepts them too. */
export function componentFiles(): Map<string, string> {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.js'))
  return new Map(files.sort().map((name) => [basename(name, '.js'), join(FOLDER, name)]))
}

/**
 * Returns all components as the one script that AdminJS's page requests. Each file is a module without imports: React
 * and the design system are globals of that page. Nothing has to be bundled when the server starts, which would take
 * seconds and a writable folder.
 */
export function componentScript(): string {
  const components = [...componentFiles()].map(([name, file]) => {
    const [before = '', component, ...more] = readFileSync(file, 'utf8').split('export default ')
    if (component === undefined || more.length > 0) throw new Error(`${file} exports no component, or several`)
    return `AdminJS.UserComponents.${name} = (() => {\n${before}return ${component}})()`
  })
  const replaced = Object.entries(REPLACED).map(([name, component]) => `AdminJS.UserComponents.${name} = ${component}`)
  return `AdminJS.UserComponents = {}\n${[...components, ...replaced].join('\n')}\n`
}

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { packagePath } from '../src/package-root.js'

const FOLDER = packagePath('admin', 'components')

/** How the components look. */
export const STYLE_SHEET = join(FOLDER, 'panel.css')

/** The components of the panel, by their names: files that AdminJS's own bundler takes too. */
export function componentFiles(): Map<string, string> {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.js'))
  return new Map(files.sort().map((name) => [basename(name, '.js'), join(FOLDER, name)]))
}

/**
 * All components as the one script that AdminJS's page asks for. Each file is a module that imports nothing: React and
 * the design system are globals of that page. So nothing has to be bundled when the server starts, which takes seconds
 * and a folder that can be written to.
 */
export function componentScript(): string {
  const components = [...componentFiles()].map(([name, file]) => {
    const [before = '', component, ...more] = readFileSync(file, 'utf8').split('export default ')
    if (component === undefined || more.length > 0) throw new Error(`${file} exports no component, or several`)
    return `AdminJS.UserComponents.${name} = (() => {\n${before}return ${component}})()`
  })
  return `AdminJS.UserComponents = {}\n${components.join('\n')}\n`
}

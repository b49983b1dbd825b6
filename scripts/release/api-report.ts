/**
 * Writes what the entry points of the package declare to `etc/`, a report for each, so that a review shows every change of
 * the public types. With `--check` it writes nothing, and fails where a committed report is not what the build declares.
 * It reads the build: `npm run build` goes first.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Extractor, ExtractorConfig, ExtractorLogLevel } from '@microsoft/api-extractor'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

const REPORTS = join(PACKAGE_ROOT, 'etc')
/** The models of the reports, of which `npm run docs:types` makes pages. */
const MODELS = join(PACKAGE_ROOT, 'dist', 'api')

const manifest: { exports: Record<string, string | { types: string }> } = JSON.parse(
  readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'),
)
const isCheck = process.argv.includes('--check')

mkdirSync(REPORTS, { recursive: true })
for (const [path, target] of Object.entries(manifest.exports)) {
  if (typeof target === 'string') continue
  const name = path === '.' ? 'index' : path.slice('./'.length)
  const entry = join(PACKAGE_ROOT, target.types)
  const config = ExtractorConfig.prepare({
    packageJsonFullPath: join(PACKAGE_ROOT, 'package.json'),
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: PACKAGE_ROOT,
      mainEntryPointFilePath: entry,
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: 'es2023',
            lib: ['es2023'],
            module: 'nodenext',
            moduleResolution: 'nodenext',
            types: ['node'],
            strict: true,
            skipLibCheck: true,
          },
          files: [entry],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: `${name}.api.md`,
        reportFolder: REPORTS,
        reportTempFolder: join(MODELS, 'reports'),
      },
      docModel: { enabled: true, apiJsonFilePath: join(MODELS, `${name}.api.json`) },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
      messages: {
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
  })
  const { succeeded, apiReportChanged } = Extractor.invoke(config, {
    localBuild: !isCheck,
    messageCallback: (message) => {
      message.handled = message.logLevel !== ExtractorLogLevel.Error
    },
  })
  if (apiReportChanged && isCheck) {
    console.error(`etc/${name}.api.md is not what the build declares: run "npm run api-report"`)
  }
  if (!succeeded || (apiReportChanged && isCheck)) process.exitCode = 1
}

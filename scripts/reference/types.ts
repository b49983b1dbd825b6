/**
 * Writes docs/reference/types: every export of every entry point, with its docstring and its declaration. It reads the
 * models that `npm run api-report` leaves in dist/, and its pages are not committed: `etc/` has the same in short.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { page, prose } from './markdown.js'

/** The parts of a model that are shown. */
interface Member {
  readonly kind: string
  readonly name?: string
  readonly docComment?: string
  readonly excerptTokens?: readonly { readonly text: string }[]
  readonly members?: readonly Member[]
}

const MODELS = join(PACKAGE_ROOT, 'dist', 'api')
const PAGES = join(PACKAGE_ROOT, 'docs', 'reference', 'types')
const PACKAGE = 'fastify-smart-ratelimit'

function formatDeclaration({ excerptTokens = [] }: Member): string {
  return excerptTokens
    .map(({ text }) => text)
    .join('')
    .replace(/^export (?:declare )?/, '')
    .trim()
}

/** Returns a declaration with its members, each below its docstring. */
function formatCode(member: Member): string {
  const declaration = formatDeclaration(member)
  if (member.members === undefined) return declaration
  const lines = member.members.flatMap((inner) => {
    const comment = inner.docComment?.trim() ?? ''
    const text = `${comment === '' ? '' : `${comment}\n`}${formatDeclaration(inner)}`
    return text.split('\n').map((line) => `  ${line.replace(/^ +(?=\*)/, ' ')}`)
  })
  return [`${declaration} {`, ...lines, '}'].join('\n')
}

/** Returns the text of a docstring; what its tags say becomes a list. */
function toText(docComment: string): string {
  const lines = docComment
    .replace(/^\/\*\*|\*\/\s*$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, ''))
  return lines
    .join('\n')
    .trim()
    .replace(/^@param (\w+)/gm, '- *$1*')
    .replace(/^@(\w+)\s+/gm, '- *$1* - ')
}

function describe(member: Member): string[] {
  const text = toText(member.docComment ?? '')
  return [
    `## ${member.name}`,
    text.includes('- *') ? text.replaceAll('<', '&lt;') : prose(text),
    `\`\`\`ts\n${formatCode(member)}\n\`\`\``,
  ]
}

await rm(PAGES, { recursive: true, force: true })
await mkdir(PAGES, { recursive: true })
for (const file of (await readdir(MODELS)).filter((name) => name.endsWith('.api.json'))) {
  const model: Member = JSON.parse(await readFile(join(MODELS, file), 'utf8'))
  const name = file.slice(0, -'.api.json'.length)
  const exports = model.members?.flatMap((entry) => entry.members ?? []) ?? []
  const title = `Types of ${PACKAGE}${name === 'index' ? '' : `/${name}`}`
  await writeFile(join(PAGES, `${name}.md`), page(title, 'the declarations', exports.flatMap(describe)))
}

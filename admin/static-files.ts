/** The files that the panel's pages load, compressed once. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { Router } from 'adminjs'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { packagePath } from '../src/ground/package-root.js'

/** The panel's own style sheet, beside AdminJS's styles. */
export const STYLES = '/frontend/assets/panel.css'
/** AdminJS's page loads its components from here; AdminJS would bundle them in the working directory at start. */
const COMPONENTS = '/frontend/assets/components.bundle.js'

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ttf': 'font/ttf',
}
/** The quality of brotli: the highest takes seconds for AdminJS's scripts, and saves little. */
const QUALITY = 9

interface StaticFile {
  readonly type: string
  readonly tag: string
  readonly identity: Buffer
  readonly br?: Buffer
  readonly gzip?: Buffer
}

/** Returns the source files by their addresses below the panel. */
function sources(): Map<string, readonly string[]> {
  const assets = Router.assets.map(({ path, src }) => [path, [smallest(src)]] as const)
  return new Map<string, readonly string[]>([
    ...assets,
    [COMPONENTS, [packagePath('admin', 'components', 'panel.js')]],
    [STYLES, [packagePath('templates', 'shell.css'), packagePath('admin', 'components', 'panel.css')]],
  ])
}

/** Returns AdminJS's file for production, whatever NODE_ENV is: the others are ten times their size. */
function smallest(source: string): string {
  return source.replace(/\bbundle\.development\.js$/, 'bundle.production.js')
}

/** Creates a function that answers a request for a file; it returns false for other addresses. */
export function createStaticFiles() {
  const files = sources()
  const loaded = new Map<string, Promise<StaticFile>>()
  return async function sendFile(path: string, request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
    const from = files.get(path)
    if (from === undefined) return false
    const existing = loaded.get(path)
    const loading = existing ?? load(from)
    if (existing === undefined) loaded.set(path, loading)
    const file = await loading
    const encoding = encodingFor(file, String(request.headers['accept-encoding'] ?? ''))
    const tag = `"${file.tag}-${encoding}"`
    // The files are for staff only; the tag tells the browser when they change.
    reply.headers({ etag: tag, vary: 'accept-encoding', 'cache-control': 'private, no-cache' }).type(file.type)
    if (String(request.headers['if-none-match'] ?? '').includes(tag)) {
      reply.code(304).send()
      return true
    }
    if (encoding !== 'identity') reply.header('content-encoding', encoding)
    reply.send(file[encoding])
    return true
  }
}

async function load(sourceFiles: readonly string[]): Promise<StaticFile> {
  const parts = await Promise.all(sourceFiles.map((file) => readFile(file)))
  const identity = Buffer.concat(parts)
  const type = CONTENT_TYPES[extname(sourceFiles[0] ?? '')]
  const tag = createHash('sha256').update(identity).digest('base64url')
  // Other types are compressed already.
  if (type === undefined) return { type: 'application/octet-stream', tag, identity }
  const [br, gzipped] = await Promise.all([
    promisify(brotliCompress)(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: QUALITY } }),
    promisify(gzip)(identity),
  ])
  return { type, tag, identity, br, gzip: gzipped }
}

/** Returns the best encoding of a file that the browser accepts. */
function encodingFor(file: StaticFile, accepted: string): 'br' | 'gzip' | 'identity' {
  const names = accepted
    .split(',')
    .filter((each) => !/;\s*q=0(?:\.0*)?\s*$/.test(each))
    .map((each) => each.split(';')[0]?.trim())
  if (file.br !== undefined && names.includes('br')) return 'br'
  return file.gzip !== undefined && names.includes('gzip') ? 'gzip' : 'identity'
}

import createError from '@fastify/error'
import type { FastifyInstance, FastifyRequest } from 'fastify'

const UnreadableFormError = createError('FST_RATE_LIMIT_UNREADABLE_FORM', 'The form cannot be read.', 400)

/** Room for any row, in bytes. */
export const BODY_LIMIT = 1024 * 1024

/**
 * Adds parsers for what the panel's pages send: forms of texts, as `multipart/form-data`, and JSON. The host's parsers
 * may behave differently, and a second `@fastify/multipart` cannot be registered beside the host's.
 */
export function parseForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('multipart/form-data', { parseAs: 'buffer', bodyLimit: BODY_LIMIT }, readForm)
  app.addContentTypeParser('application/json', { parseAs: 'string', bodyLimit: BODY_LIMIT }, readJson)
}

async function readForm(request: FastifyRequest, body: Buffer): Promise<Fields> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  const form = await new Response(new Uint8Array(body), { headers }).formData().catch((error: unknown) => {
    throw Object.assign(new UnreadableFormError(), { cause: error })
  })
  return toFields([...form])
}

async function readJson(_request: FastifyRequest, body: string): Promise<Fields> {
  try {
    return toFields(Object.entries(Object(JSON.parse(body))))
  } catch (error) {
    throw Object.assign(new UnreadableFormError(), { cause: error })
  }
}

type Fields = Readonly<Record<string, string | boolean>>

/**
 * Returns the valid fields of a form. Files are ignored. Every field is a text or a boolean, so that no value can pose
 * as something else. Names are restricted too: AdminJS turns those with a dot into objects, and fails at those that
 * every object has.
 */
function toFields(entries: readonly [name: string, value: unknown][]): Fields {
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string | boolean] => {
      const [name, value] = entry
      return (
        (typeof value === 'string' || typeof value === 'boolean') && !name.includes('.') && !(name in Object.prototype)
      )
    }),
  )
}

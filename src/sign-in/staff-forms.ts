import type { FastifyInstance, FastifyRequest } from 'fastify'

/** The fields of a posted form; undefined where the request has no body. */
export type StaffForm = URLSearchParams | undefined

/**
 * Adds the parser of forms of the staff pages. The host may parse forms already, into a shape of its choice.
 *
 * @param bodyLimit the most bytes of a form
 */
export function parseStaffForms(app: FastifyInstance, bodyLimit: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit },
    async (_request: FastifyRequest, body: string) => new URLSearchParams(body),
  )
}

import Type from 'typebox'
import { DOCUMENT_HEAD, exportSlices } from '../../rules/exchange/exchange.js'
import { importRight } from '../sign-in/roles.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { defineRoute } from './define-route.js'
import { DifferenceSchema, DocumentSchema, DocumentToImport } from './entry-schemas.js'
import { SentExports } from './sent-exports.js'
import { setJsonType, toJson } from './streamed-json.js'

/** Room for a set of many thousand rules, as in the panel. */
const BODY_LIMIT = 16 * 1024 * 1024

export function exchangeRoutes({ internals, limits, write }: ApiContext): readonly ApiRoute[] {
  const { database, clock } = internals
  const exports = new SentExports()
  return [
    defineRoute({
      method: 'GET',
      path: '/export',
      id: 'exportRules',
      tag: 'exchange',
      summary: 'Export rules and overrides',
      about:
        'All rules, and all overrides that have not expired, as of one moment: the file of ratelimit rules export. It has to be read within two minutes; an actor has four at once.',
      needs: 'read',
      answers: { 200: { about: 'The document.', schema: DocumentSchema } },
      async handle({ actor }, reply) {
        const stream = await exports.send(
          actor,
          (receive) => exportSlices(database, clock, (slices) => receive(toJson(DOCUMENT_HEAD, slices))),
          () => !reply.raw.destroyed,
        )
        setJsonType(reply)
        return stream
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/import',
      id: 'importRules',
      tag: 'exchange',
      summary: 'Import rules and overrides',
      about:
        'Makes the rules and overrides equal to those of a document, all or nothing. A list that the document lacks stays as it is: without rules it takes the role operator, with them admin. A dry run takes viewer.',
      needs: ({ dryRun }) => (dryRun === true ? 'read' : 'writeOverrides'),
      alsoNeeds: ({ query: { dryRun = false }, body }) => (dryRun ? undefined : importRight(body)),
      query: {
        dryRun: Type.Optional(Type.Boolean({ default: false, description: 'Only answers the difference.' })),
        keep: Type.Optional(Type.Boolean({ default: false, description: 'Deletes nothing.' })),
      },
      body: DocumentToImport,
      isLarge: true,
      bodyLimit: BODY_LIMIT,
      answers: { 200: { about: 'The difference.', schema: DifferenceSchema } },
      handle: ({ query, body, actor }) => write(actor, () => limits.rules.import(body, query)),
    }),
  ]
}

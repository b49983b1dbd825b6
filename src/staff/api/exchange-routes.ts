import Type from 'typebox'
import { DOCUMENT_HEAD, exportSlices, type ImportResult } from '../../rules/exchange/exchange.js'
import { lastParameter } from '../shell/request-query.js'
import { importRight } from '../shell/roles.js'
import { requireMay } from '../shell/staff-member.js'
import { type ApiContext, type ApiScope, actorOf, answer, operation } from './api-scope.js'
import { closed, DifferenceSchema, DocumentSchema, DocumentToImport } from './entry-schemas.js'
import { SentExports } from './sent-exports.js'
import { setJsonType, streamLists, toJson } from './streamed-json.js'
import { compileValidator } from './validator.js'

/** Room for a set of many thousand rules, as in the panel. */
const BODY_LIMIT = 16 * 1024 * 1024

export function addExchangeRoutes(app: ApiScope, { database, clock, limits, write }: ApiContext): void {
  const exports = new SentExports()
  app.get(
    '/export',
    operation('exchange', 'exportRules', 'read', 'Export rules and overrides', {
      description:
        'All rules, and all overrides that have not expired, as of one moment: the file that `ratelimit rules export` prints. The answer must be read within two minutes. An actor can have four exports at once.',
      response: { 200: answer('The document.', DocumentSchema) },
    }),
    async (request, reply) => {
      const stream = await exports.send(
        actorOf(request),
        (receive) => exportSlices(database, clock, (slices) => receive(toJson(DOCUMENT_HEAD, slices))),
        () => !reply.raw.destroyed,
      )
      setJsonType(reply)
      return stream
    },
  )
  app.post(
    '/import',
    {
      ...operation(
        'exchange',
        'importRules',
        (request) => (lastParameter(request, 'dryRun') === 'true' ? 'read' : 'writeOverrides'),
        'Import rules and overrides',
        {
          description:
            'Makes the rules and overrides equal to those of a document, all or nothing. Where the document has no list of rules or of overrides, those stay as they are. A document with rules needs the role admin, one without them operator, a dry run viewer.',
          querystring: closed({
            dryRun: Type.Optional(
              Type.Boolean({ default: false, description: 'Returns the difference, and writes nothing.' }),
            ),
            keep: Type.Optional(
              Type.Boolean({ default: false, description: 'Keeps rules and overrides that are not in the document.' }),
            ),
          }),
          body: DocumentToImport,
          response: { 200: answer('The difference.', DifferenceSchema) },
        },
      ),
      bodyLimit: BODY_LIMIT,
      // The import validates the document, which may be large: any object will do before it.
      validatorCompiler: (part) =>
        compileValidator(part.httpPart === 'body' ? { ...part, schema: Type.Object({}) } : part),
    },
    async (request, reply) => {
      const { query, body } = request
      if (query.dryRun !== true) requireMay(request, importRight(body))
      const { rules, overrides, ...rest } = await write(request, () => limits.rules.import(body, query))
      return streamLists(reply, { rules: toLists(rules), overrides: toLists(overrides) }, rest)
    },
  )
}

/** Returns a difference as it is streamed: it may have each entry twice. */
function toLists({ unchanged, ...lists }: ImportResult['rules' | 'overrides']) {
  return { head: { unchanged }, lists }
}

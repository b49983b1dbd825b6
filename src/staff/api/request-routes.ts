import Type, { type Static } from 'typebox'
import { isStaffCounter } from '../../clients/counter.js'
import { MAX_CLIENT_LENGTH } from '../../clients/override-client.js'
import { MAX_KEY_LENGTH } from '../../ground/storable.js'
import { validateHeaderCount } from '../../http/explain/explain.js'
import { COUNTED_CLIENTS, readCountedClient } from '../shell/counted-client.js'
import { ActionDeniedError } from '../shell/staff-errors.js'
import { type ApiContext, type ApiScope, actorOf, answer, operation } from './api-scope.js'
import { closed } from './entry-schemas.js'
import { asInput, InvalidInputError } from './problems.js'
import { ExplanationSchema, HealthSchema } from './report-schemas.js'
import { streamRows } from './streamed-json.js'

const MAX_TEXT = 2_000
const Trial = closed({
  method: Type.Optional(Type.String({ maxLength: 100, default: 'GET' })),
  path: Type.String({ maxLength: MAX_TEXT, description: 'The path as a client sends it, with or without a query.' }),
  ip: Type.Optional(Type.String({ maxLength: 100, description: "The client's address." })),
  user: Type.Optional(
    Type.Union(
      [
        Type.String(),
        Type.Integer(),
        Type.Null(),
        Type.Object({ id: Type.Optional(Type.Union([Type.String(), Type.Integer()])) }),
      ],
      {
        description: "The user's id, or the user with all fields that conditions and keys read.",
      },
    ),
  ),
  headers: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Array(Type.String())]))),
})
const Counted = closed({
  client: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_CLIENT_LENGTH,
      description:
        'Resets all counters of this client, of limits, rules and overrides: user:1007, an address, with or without ip: before it, or another client as the log has it.',
    }),
  ),
  key: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_KEY_LENGTH,
      description:
        'Resets the counters of this key, as in the log: of a rule alone by rule:api:203.0.113.7. Not together with `client`.',
    }),
  ),
})

const NO_CLIENT = `is not a client whose counters can be found: ${COUNTED_CLIENTS}; or give a key of the log as "key"`

function wrongCounted(field: string, detail: string): InvalidInputError {
  return new InvalidInputError([{ in: 'body', field, detail }])
}

export function addRequestRoutes(app: ApiScope, { settings, limiter, inForce, limits }: ApiContext): void {
  const { privacy } = settings

  /** @returns what was reset, as the log of the app names it */
  async function reset({ client, key }: Static<typeof Counted>): Promise<string> {
    if (client !== undefined && key !== undefined) throw wrongCounted('client', 'is given with "key": give one of them')
    if (client !== undefined) {
      const counted = readCountedClient(client, settings)
      if (counted === undefined) throw wrongCounted('client', NO_CLIENT)
      await limiter.reset(await inForce.clientCounters(counted))
      return privacy?.toCounted(counted) ?? counted
    }
    if (key === undefined) throw wrongCounted('client', 'is required: give the client, or a key of the log as "key"')
    if (isStaffCounter(key))
      throw new ActionDeniedError('The limits of the staff pages and of the API cannot be reset here.')
    await asInput(() => limits.reset(key))
    return privacy?.toCounted(key) ?? key
  }

  app.post(
    '/explain',
    {
      ...operation('requests', 'explainRequest', 'read', 'Explain a request', {
        description:
          'The limits that would apply to a request, in the order in which they are tried. Nothing is sent, and nothing is counted. The request can have up to 2,000 headers.',
        body: Trial,
        response: { 200: answer('The limits.', ExplanationSchema) },
      }),
      // The validator takes its time for many.
      preValidation: async ({ body }) => asInput(async () => validateHeaderCount(Object(Object(body).headers))),
    },
    async ({ body }, reply) => {
      const { limits: listed, ...explanation } = await asInput(() => limits.explain(body))
      return streamRows(reply, explanation, 'limits', listed)
    },
  )
  app.post(
    '/counters/reset',
    operation('requests', 'resetCounters', 'resetCounters', 'Reset the counters of a client', {
      description: 'Every process obeys within two seconds.',
      body: Counted,
      response: { 204: answer('The counters are reset.') },
    }),
    async (request, reply) => {
      const key = await reset(request.body)
      // The history is of rules and overrides.
      request.log.info({ key, actor: actorOf(request) }, 'Counters were reset through the API of the rate limiter')
      reply.code(204)
    },
  )
  app.get(
    '/health',
    operation('requests', 'getHealth', 'read', 'Report on the health of the limiter', {
      response: { 200: answer('The state of each part, including those that fail.', HealthSchema) },
    }),
    async () => limits.health(),
  )
}

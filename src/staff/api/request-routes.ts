import Type from 'typebox'
import { isStaffCounter } from '../../clients/client-key.js'
import { MAX_KEY_LENGTH } from '../../ground/storable.js'
import { ActionDeniedError } from '../sign-in/staff-errors.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { defineRoute } from './define-route.js'
import { asInput } from './problems.js'
import { ExplanationSchema, HealthSchema } from './report-schemas.js'
import { streamRows } from './streamed-json.js'

const MAX_TEXT = 2_000
const Trial = Type.Object(
  {
    method: Type.Optional(Type.String({ maxLength: 100, default: 'GET' })),
    path: Type.String({ maxLength: MAX_TEXT, description: 'As a client sends it, with or without a query.' }),
    ip: Type.Optional(Type.String({ maxLength: 100, description: "The client's address." })),
    user: Type.Optional(
      Type.Union(
        [Type.String(), Type.Integer(), Type.Null(), Type.Object({ id: Type.Union([Type.String(), Type.Integer()]) })],
        {
          description: "The user's id, or the user with all fields that conditions see.",
        },
      ),
    ),
    headers: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Array(Type.String())]))),
  },
  { additionalProperties: false },
)
const Key = Type.Object(
  { key: Type.String({ minLength: 1, maxLength: MAX_KEY_LENGTH, description: 'As in the log: ip:203.0.113.7.' }) },
  { additionalProperties: false },
)

export function requestRoutes({ limits, internals: { privacy } }: ApiContext): readonly ApiRoute[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/explain',
      id: 'explainRequest',
      tag: 'requests',
      summary: 'Explain a request',
      about: 'Which limits a request would meet, in the order of deciding. Nothing is sent or charged.',
      needs: 'read',
      body: Trial,
      answers: { 200: { about: 'The limits.', schema: ExplanationSchema } },
      async handle({ body }, reply) {
        const { limits: listed, ...explanation } = await asInput(() => limits.explain(body))
        return streamRows(reply, explanation, 'limits', listed)
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/counters/reset',
      id: 'resetCounters',
      tag: 'requests',
      summary: 'Reset the counters of a client',
      about: 'Every process obeys within two seconds.',
      needs: 'resetCounters',
      body: Key,
      answers: { 204: { about: 'They are reset.' } },
      async handle({ body: { key }, actor, request }, reply) {
        if (isStaffCounter(key))
          throw new ActionDeniedError('The limits of the staff pages and of the API cannot be reset here.')
        await asInput(() => limits.reset(key))
        // The history is of rules and overrides.
        request.log.info(
          { key: privacy?.toCounted(key) ?? key, actor },
          'Counters were reset through the API of the rate limiter',
        )
        reply.code(204)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/health',
      id: 'getHealth',
      tag: 'requests',
      summary: 'Report on the health of the limiter',
      needs: 'read',
      answers: { 200: { about: 'The state of its parts, also of failing ones.', schema: HealthSchema } },
      handle: () => limits.health(),
    }),
  ]
}

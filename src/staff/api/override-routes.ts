import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { storedSpellings } from '../../clients/client-networks.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { defineRoute } from './define-route.js'
import { editRow, unlessTaken } from './edit-row.js'
import { findOverride, readOverrides } from './entry-pages.js'
import {
  explainWith,
  OverrideSchema,
  PAGE,
  pageSchema,
  type StoredOverride,
  withDefaults,
  writtenFields,
} from './entry-schemas.js'
import { etagFor } from './etag.js'
import { NotFoundError } from './problems.js'

/** The largest id of the table. */
const MAX_ID = 2_147_483_647
const IDENTIFIED = { id: Type.Integer({ minimum: 1, maximum: MAX_ID, description: "The override's id." }) }
const TAKEN = 'This client has an override for this path already: change that one.'

export function overrideRoutes({ internals, limits, write }: ApiContext): readonly ApiRoute[] {
  const { database, clock, privacy } = internals
  const { rateLimitOverride } = limits.client

  async function send(reply: FastifyReply, id: number): Promise<StoredOverride> {
    const override = await findOverride(database, id)
    if (override === undefined) throw new NotFoundError(missing(id))
    reply.header('etag', etagFor(override))
    return override
  }

  return [
    defineRoute({
      method: 'GET',
      path: '/overrides',
      id: 'listOverrides',
      tag: 'overrides',
      summary: 'List overrides',
      about: 'All overrides and bans, also those that have expired, the oldest first.',
      needs: 'read',
      query: {
        ...PAGE,
        client: Type.Optional(Type.String({ maxLength: 255, description: 'Only of this client: ip:203.0.113.7.' })),
      },
      answers: { 200: { about: 'A page of overrides.', schema: pageSchema(OverrideSchema) } },
      handle: ({ query: { client, ...page } }) =>
        readOverrides(database, { ...page, clients: client === undefined ? client : storedSpellings(client, privacy) }),
    }),
    defineRoute({
      method: 'POST',
      path: '/overrides',
      id: 'createOverride',
      tag: 'overrides',
      summary: 'Create an override',
      needs: 'writeOverrides',
      body: writtenFields(OVERRIDES.fields, ['client', 'effect']),
      explain: (body) => explainWith(OVERRIDES, Object(body), 'new', clock.now()),
      answers: { 201: { about: 'The override.', schema: OverrideSchema, tagged: true, located: true } },
      async handle({ body, actor, request }, reply) {
        const data = withDefaults(OVERRIDES.fields, body)
        const { id } = await write(actor, () => unlessTaken(TAKEN, async () => rateLimitOverride.create({ data })))
        const [path = ''] = request.url.split('?')
        reply.code(201).header('location', `${path.replace(/\/$/, '')}/${id}`)
        return send(reply, id)
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/overrides/{id}',
      id: 'getOverride',
      tag: 'overrides',
      summary: 'Read an override',
      needs: 'read',
      params: IDENTIFIED,
      answers: { 200: { about: 'The override.', schema: OverrideSchema, tagged: true } },
      handle: ({ params: { id } }, reply) => send(reply, id),
    }),
    defineRoute({
      method: 'PATCH',
      path: '/overrides/{id}',
      id: 'patchOverride',
      tag: 'overrides',
      summary: 'Change fields of an override',
      needs: 'writeOverrides',
      locks: true,
      params: IDENTIFIED,
      body: writtenFields(OVERRIDES.fields),
      explain: (body) => explainWith(OVERRIDES, Object(body), 'part', clock.now()),
      answers: { 200: { about: 'The override, changed.', schema: OverrideSchema, tagged: true } },
      async handle({ params: { id }, body: data, actor, request }, reply) {
        await write(actor, () =>
          unlessTaken(TAKEN, () =>
            editRow(request, {
              find: () => findOverride(database, id),
              write: async (seen) => (await rateLimitOverride.updateMany({ where: { ...seen, id }, data })).count,
              missing: missing(id),
            }),
          ),
        )
        return send(reply, id)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/overrides/{id}',
      id: 'deleteOverride',
      tag: 'overrides',
      summary: 'End an override',
      needs: 'writeOverrides',
      locks: true,
      params: IDENTIFIED,
      answers: { 204: { about: 'It has ended.' } },
      async handle({ params: { id }, actor, request }, reply) {
        await write(actor, () =>
          editRow(request, {
            find: () => findOverride(database, id),
            write: async (seen) => (await rateLimitOverride.deleteMany({ where: { ...seen, id } })).count,
            missing: missing(id),
          }),
        )
        reply.code(204)
      },
    }),
  ]
}

function missing(id: number): string {
  return `There is no override ${id}.`
}

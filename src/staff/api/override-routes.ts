import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { storedSpellings } from '../../clients/client-networks.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { changeRows } from '../../rules/table.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { editRow } from './edit-row.js'
import { findOverride, readOverrides } from './entry-pages.js'
import { closed, OverrideSchema, PAGE, pageSchema, type StoredOverride, writtenFields } from './entry-schemas.js'
import { ETAG, etagFor, IF_MATCH } from './etag.js'
import { ConflictError, NotFoundError } from './problems.js'

/** The largest id of the table. */
const MAX_ID = 2_147_483_647
const IDENTIFIED = Type.Object({ id: Type.Integer({ minimum: 1, maximum: MAX_ID, description: "The override's id." }) })
const LOCATION = { Location: { type: 'string', description: 'Its address.' } }
const OVERRIDE = answer('The override.', OverrideSchema, ETAG)
const TAKEN = 'This client already has an override for this path: change that one.'

export function addOverrideRoutes(app: ApiScope, context: ApiContext): void {
  const { database, clock, settings, write } = context
  const { privacy } = settings

  async function send(reply: FastifyReply, id: number): Promise<StoredOverride> {
    const override = await findOverride(database, id)
    if (override === undefined) throw new NotFoundError(missing(id))
    reply.header('etag', etagFor(override.entry))
    return { id: override.id, ...override.entry }
  }

  app.get(
    '/overrides',
    operation('overrides', 'listOverrides', 'read', 'List overrides', {
      description: 'All overrides and bans, including expired ones, oldest first.',
      querystring: closed({
        ...PAGE,
        client: Type.Optional(
          Type.String({ maxLength: 255, description: 'Only overrides of this client: ip:203.0.113.7.' }),
        ),
      }),
      response: { 200: answer('A page of overrides.', pageSchema(OverrideSchema)) },
    }),
    async ({ query: { client, ...page } }) =>
      readOverrides(database, { ...page, clients: client === undefined ? client : storedSpellings(client, privacy) }),
  )
  app.post(
    '/overrides',
    operation('overrides', 'createOverride', 'writeOverrides', 'Create an override', {
      body: writtenFields(OVERRIDES, ['client', 'effect']),
      response: { 201: answer('The override.', OverrideSchema, { ...ETAG, ...LOCATION }) },
    }),
    async (request, reply) => {
      const id = await write(request, () =>
        changeRows(database, OVERRIDES, clock.now(), (overrides) => overrides.create(request.body)),
      )
      if (id === undefined) throw new ConflictError(TAKEN)
      const [path = ''] = request.url.split('?')
      reply.code(201).header('location', `${path.replace(/\/$/, '')}/${id}`)
      return send(reply, id)
    },
  )
  app.get(
    '/overrides/:id',
    operation('overrides', 'getOverride', 'read', 'Read an override', {
      params: IDENTIFIED,
      response: { 200: OVERRIDE },
    }),
    async ({ params: { id } }, reply) => send(reply, id),
  )
  app.patch(
    '/overrides/:id',
    operation('overrides', 'patchOverride', 'writeOverrides', 'Change fields of an override', {
      params: IDENTIFIED,
      headers: IF_MATCH,
      body: writtenFields(OVERRIDES),
      response: { 200: answer('The override, changed.', OverrideSchema, ETAG) },
    }),
    async (request, reply) => {
      const { id } = request.params
      await write(request, () => editRow(request, context, overrideOf(id), request.body))
      return send(reply, id)
    },
  )
  app.delete(
    '/overrides/:id',
    operation('overrides', 'deleteOverride', 'writeOverrides', 'End an override', {
      params: IDENTIFIED,
      headers: IF_MATCH,
      response: { 204: answer('The override has ended.') },
    }),
    async (request, reply) => {
      const { id } = request.params
      await write(request, () => editRow(request, context, overrideOf(id), undefined))
      reply.code(204)
    },
  )
}

function overrideOf(id: number) {
  return { description: OVERRIDES, where: 'id = $1', value: id, missing: missing(id), taken: TAKEN }
}

function missing(id: number): string {
  return `There is no override ${id}.`
}

import Type from 'typebox'
import { storedSpellings } from '../../clients/client-networks.js'
import { CHANGE_SOURCES } from '../../rules/history/actor.js'
import { findChange, listChanges } from '../../rules/history/history.js'
import { requireMay } from '../sign-in/staff-member.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { PlaceNumber, parseCursor } from './cursor.js'
import { defineRoute } from './define-route.js'
import { toPage } from './entry-pages.js'
import { ChangeSchema, DEFAULT_LIMIT, PAGE, pageSchema } from './entry-schemas.js'
import { NotFoundError } from './problems.js'

const Place = Type.Tuple([PlaceNumber])
const MAX_ID = Number.MAX_SAFE_INTEGER

export function historyRoutes({ internals, limits, write }: ApiContext): readonly ApiRoute[] {
  const { database, privacy } = internals
  return [
    defineRoute({
      method: 'GET',
      path: '/history',
      id: 'listChanges',
      tag: 'history',
      summary: 'List changes',
      about: 'The changes of rules and overrides, the newest first.',
      needs: 'read',
      query: {
        ...PAGE,
        name: Type.Optional(
          Type.String({ maxLength: 255, description: 'Of the rule, or of the client of an override: now, or ever.' }),
        ),
        entity: Type.Optional(Type.Enum(['rule', 'override'])),
        source: Type.Optional(Type.Enum([...CHANGE_SOURCES], { description: 'The door that it came through.' })),
        actor: Type.Optional(Type.String({ maxLength: 200, description: 'Who did it: the whole name.' })),
      },
      answers: { 200: { about: 'A page of changes.', schema: pageSchema(ChangeSchema) } },
      async handle({ query: { limit = DEFAULT_LIMIT, cursor, name, ...filter } }) {
        const list = `history ${JSON.stringify([name, filter.entity, filter.source, filter.actor])}`
        const [beforeId] = cursor === undefined ? [] : parseCursor(list, Place, cursor)
        const names = name === undefined ? name : storedSpellings(name, privacy)
        const changes = await listChanges(database, names, { ...filter, limit: limit + 1, beforeId })
        return toPage(list, changes, limit, ({ id }) => [id])
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/history/{id}/revert',
      id: 'revertChange',
      tag: 'history',
      summary: 'Revert a change',
      about:
        'Later changes of other fields stay. The change of a rule takes the role admin, that of an override operator.',
      needs: 'writeOverrides',
      params: { id: Type.Integer({ minimum: 1, maximum: MAX_ID, description: "The change's id." }) },
      answers: { 204: { about: 'It is undone; the history has a new change.' } },
      async handle({ params: { id }, actor, request }, reply) {
        const change = await findChange(database, id)
        if (change === undefined) throw new NotFoundError(`There is no change ${id}.`)
        if (change.entity === 'rule') requireMay(request, 'writeRules')
        await write(actor, () => limits.rules.revert(id))
        reply.code(204)
      },
    }),
  ]
}

import Type from 'typebox'
import { storedSpellings } from '../../clients/client-networks.js'
import { CHANGE_SOURCES } from '../../rules/history/actor.js'
import { CHANGE_ENTITIES, changeList, findChange } from '../../rules/history/history.js'
import { requireMayRevert } from '../shell/revert-right.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { readCursorPage } from './cursor.js'
import { ChangeSchema, closed, PAGE, pageSchema } from './entry-schemas.js'
import { Moment, parseBound } from './moments.js'
import { NotFoundError } from './problems.js'

const MAX_ID = Number.MAX_SAFE_INTEGER

export function addHistoryRoutes(app: ApiScope, { database, settings, limits, write }: ApiContext): void {
  const { privacy } = settings
  app.get(
    '/history',
    operation('history', 'listChanges', 'read', 'List changes', {
      description:
        'The changes to rules and overrides, and which incidents were ignored or watched again, newest first.',
      querystring: closed({
        ...PAGE,
        name: Type.Optional(
          Type.String({
            maxLength: 255,
            description: 'The name of a rule, or the client of an override or an incident, current or former.',
          }),
        ),
        entity: Type.Optional(Type.Enum([...CHANGE_ENTITIES])),
        source: Type.Optional(Type.Enum([...CHANGE_SOURCES], { description: 'Where the change came from.' })),
        actor: Type.Optional(Type.String({ maxLength: 200, description: 'Who made the change: the whole name.' })),
        since: Moment('The beginning of the range, such as 2027-01-31T12:00:00Z.'),
        until: Moment('The end of the range, which is not part of it.'),
      }),
      response: { 200: answer('A page of changes.', pageSchema(ChangeSchema)) },
    }),
    async ({ query: { limit, cursor, name, since, until, ...filter } }) => {
      const period = { since: toDate(since), until: toDate(until) }
      const list = `history ${JSON.stringify([name, filter.entity, filter.source, filter.actor, period.since, period.until])}`
      const names = name === undefined ? name : storedSpellings(name, privacy)
      return readCursorPage(database.dialect, list, changeList(database, names, { ...filter, ...period }), {
        limit,
        cursor,
      })
    },
  )
  app.post(
    '/history/:id/revert',
    operation('history', 'revertChange', 'writeOverrides', 'Revert a change', {
      description:
        'All changes of the same action are reverted together. Later changes to other fields stay. Reverting changes to rules needs the role admin, except for enabling or disabling a rule; reverting other changes needs operator.',
      params: Type.Object({ id: Type.Integer({ minimum: 1, maximum: MAX_ID, description: "The change's id." }) }),
      response: { 204: answer('The change is reverted; the history has a new change.') },
    }),
    async (request, reply) => {
      const { id } = request.params
      const change = await findChange(database, id)
      if (change === undefined) throw new NotFoundError(`There is no change ${id}.`)
      await requireMayRevert(request, database, change)
      await write(request, () => limits.rules.revert(id))
      reply.code(204)
    },
  )
}

function toDate(moment: string | undefined): Date | undefined {
  const ms = parseBound(moment)
  return ms === undefined ? undefined : new Date(ms)
}

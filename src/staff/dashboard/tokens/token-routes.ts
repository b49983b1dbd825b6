/** The page of the API tokens: an admin creates and revokes them. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FieldErrors } from '../../../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { defaultsFor, parseFields, type Values } from '../../../rules/description.js'
import { addToken, listTokens, revokeToken, TOKEN_FIELDS } from '../../api/token-table.js'
import { formGroups, readFields } from '../../shell/field-form.js'
import { leadOn, takeNotice } from '../../shell/notice-cookie.js'
import { guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, requireActor, requireMay } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { visible } from '../format.js'
import type { PageRoutes } from '../page-routes.js'
import { type CreatedToken, tokensContext } from './tokens-page.js'

const PAGE = 'tokens.html'
const RIGHT = 'writeTokens'

/** The content of the form. */
interface Shown {
  readonly values: Values
  readonly errors: FieldErrors
  readonly created?: CreatedToken
}

export function registerTokenRoutes(routes: PageRoutes<'mounts'>): void {
  const { app, pages, database, clock, mounts } = routes

  async function showTokens(request: FastifyRequest, reply: FastifyReply) {
    requireMay(request, RIGHT)
    return send(request, reply, { values: defaultsFor(TOKEN_FIELDS), errors: {} })
  }

  async function send(request: FastifyRequest, reply: FastifyReply, { values, errors, created }: Shown) {
    const actor = actorWith(request, RIGHT)
    const tokens = await fromDatabase(listTokens(database))
    const nowMs = clock.now()
    return pages.send(reply, 'tokens', {
      page: {
        ...tokensContext(tokens, nowMs),
        has_api: mounts.apis.length > 0,
        notice: takeNotice(request, reply, PAGE),
        token: actor === undefined ? undefined : issueFormToken(request, reply, actor),
        groups: formGroups(TOKEN_FIELDS, values, errors),
        created,
        problem: Object.keys(errors).length === 0 ? undefined : 'No token was created.',
      },
    })
  }

  async function takeForm(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const revoked = form.get('revoke')
    return revoked === null ? create(request, reply, form) : revoke(request, reply, storable(revoked, MAX_KEY_LENGTH))
  }

  /** Answers with the text of the token: it is kept nowhere, so that no other page can show it. */
  async function create(request: FastifyRequest, reply: FastifyReply, form: URLSearchParams) {
    const nowMs = clock.now()
    const typed = readFields(TOKEN_FIELDS, (field) => form.get(field) ?? undefined, nowMs)
    const values = { ...defaultsFor(TOKEN_FIELDS), ...typed }
    const { errors } = parseFields(TOKEN_FIELDS, values, 'new')
    if (Object.keys(errors).length > 0) return refuse(request, reply, { values, errors })
    const name = TOKEN_FIELDS.name.parse(values.name)
    const role = TOKEN_FIELDS.role.parse(values.role)
    const lifeMs = TOKEN_FIELDS.for.parse(values.for)
    const expiresAtMs = lifeMs === null ? null : nowMs + lifeMs
    const text = await fromDatabase(addToken(database, { name, role, expiresAtMs }, nowMs))
    if (text === undefined) {
      const taken = 'A token already has this name: give another name, or revoke that token'
      return refuse(request, reply, { values, errors: { name: taken } })
    }
    request.log.info({ token: name, role, actor: requireActor(request, RIGHT) }, 'An API token was created')
    reply.code(201)
    return send(request, reply, { values: defaultsFor(TOKEN_FIELDS), errors: {}, created: { name, text } })
  }

  function refuse(request: FastifyRequest, reply: FastifyReply, shown: Shown) {
    reply.code(400)
    return send(request, reply, shown)
  }

  async function revoke(request: FastifyRequest, reply: FastifyReply, name: string) {
    const isRevoked = await fromDatabase(revokeToken(database, name))
    const text = isRevoked
      ? `The token ${visible(name)} was revoked: it no longer gives access.`
      : `Nothing was changed: the token ${visible(name)} no longer exists.`
    if (isRevoked) {
      request.log.info({ token: name, actor: requireActor(request, RIGHT) }, 'An API token was revoked')
    }
    return leadOn(request, reply, PAGE, PAGE, { succeeded: isRevoked, text, typed: {} })
  }

  app.register(async (scope) => {
    guardActions(scope, routes, RIGHT)
    scope.get(`/${PAGE}`, staffRoute('tokens'), showTokens)
    scope.post<{ Body: StaffForm }>(`/${PAGE}`, staffRoute('tokens'), takeForm)
  })
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import Type from 'typebox'
import type { RateLimitClient } from '../../plugin/client/client.js'
import type { Values } from '../../rules/description.js'
import { RULES, type RuleEntry } from '../../rules/rule.js'
import type { ApiContext } from './api-context.js'
import type { ApiRoute } from './api-route.js'
import { defineRoute } from './define-route.js'
import { editRow, readably, unlessTaken } from './edit-row.js'
import { findRule, RulePages } from './entry-pages.js'
import { explainWith, PAGE, pageSchema, RuleSchema, withDefaults, writtenFields } from './entry-schemas.js'
import { etagFor, requireMatch } from './etag.js'
import { asInput, NotFoundError } from './problems.js'
import { PreviewSchema } from './report-schemas.js'
import { setJsonType } from './streamed-json.js'

const NAMED = { name: Type.String({ minLength: 1, maxLength: 100, description: "The rule's name." }) }
const REPLACED = writtenFields(RULES.fields, ['pathPattern', 'rate'])
const PATCHED = writtenFields(RULES.fields)
/** The only field of a rule that takes no more than to switch it. */
const SWITCH = 'isActive'
const MAX_HOURS = 720

export function ruleRoutes({ internals, limits, write }: ApiContext): readonly ApiRoute[] {
  const { database, clock } = internals
  const { rateLimitRule }: RateLimitClient = limits.client
  const pages = new RulePages(database, clock)

  async function send(reply: FastifyReply, name: string): Promise<RuleEntry> {
    const rule = await findRule(database, name)
    if (rule === undefined) throw new NotFoundError(missing(name))
    reply.header('etag', etagFor(rule))
    return rule
  }

  /** Creates the rule or replaces all its fields; returns whether it was created. */
  async function put(request: FastifyRequest, name: string, body: Values): Promise<boolean> {
    const data = withDefaults(RULES.fields, { ...body, name })
    const seen = await findRule(database, name)
    if (requireMatch(request, seen)) {
      await editRow(request, {
        find: async () => seen,
        write: async (row) => (await rateLimitRule.updateMany({ where: { ...row }, data })).count,
        missing: missing(name),
      })
      return false
    }
    // Others may create or delete it meanwhile: one of the two statements finds it in a state that suits it.
    const { count } = await readably(async () => rateLimitRule.updateMany({ where: { name }, data }))
    if (count > 0) return false
    await unlessTaken(`The rule ${JSON.stringify(name)} was created meanwhile.`, async () =>
      rateLimitRule.create({ data }),
    )
    return true
  }

  return [
    defineRoute({
      method: 'GET',
      path: '/rules',
      id: 'listRules',
      tag: 'rules',
      summary: 'List rules',
      about: 'All rules, active or not, by priority, the highest first, and name.',
      needs: 'read',
      query: PAGE,
      answers: { 200: { about: 'A page of rules.', schema: pageSchema(RuleSchema) } },
      async handle({ query }, reply) {
        const page = await pages.read(query)
        setJsonType(reply)
        return page
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/rules/preview',
      id: 'previewRule',
      tag: 'rules',
      summary: 'Preview a rule',
      about: 'What a rule would have done to the logged requests. Nothing is written.',
      needs: 'read',
      body: Type.Object(
        {
          rule: writtenFields(RULES.fields, ['name', 'pathPattern', 'rate']),
          hours: Type.Optional(Type.Number({ minimum: 1, maximum: MAX_HOURS, default: 24 })),
        },
        { additionalProperties: false },
      ),
      explain: (body) => {
        const errors = explainWith(RULES, Object(Object(body).rule), 'new', clock.now())
        return Object.fromEntries(Object.entries(errors).map(([field, detail]) => [`rule.${field}`, detail]))
      },
      answers: { 200: { about: 'The preview.', schema: PreviewSchema } },
      handle: ({ body: { rule, hours } }) =>
        asInput(() => limits.rules.preview(withDefaults(RULES.fields, rule), { hours })),
    }),
    defineRoute({
      method: 'GET',
      path: '/rules/{name}',
      id: 'getRule',
      tag: 'rules',
      summary: 'Read a rule',
      needs: 'read',
      params: NAMED,
      answers: { 200: { about: 'The rule.', schema: RuleSchema, tagged: true } },
      handle: ({ params: { name } }, reply) => send(reply, name),
    }),
    defineRoute({
      method: 'PUT',
      path: '/rules/{name}',
      id: 'putRule',
      tag: 'rules',
      summary: 'Create or replace a rule',
      about: 'Fields that are left out take their defaults.',
      needs: 'writeRules',
      locks: true,
      params: NAMED,
      body: REPLACED,
      explain: (body, params) => {
        const { name } = Object(params)
        const given: Values = Object(body)
        const errors = explainWith(RULES, { ...given, name }, 'new', clock.now())
        return given.name === undefined || given.name === name
          ? errors
          : { ...errors, name: `is not the name of the address, ${JSON.stringify(name)}: leave it out` }
      },
      answers: {
        200: { about: 'The rule, replaced.', schema: RuleSchema, tagged: true },
        201: { about: 'The rule, created.', schema: RuleSchema, tagged: true },
      },
      async handle({ params: { name }, body, actor, request }, reply) {
        const isNew = await write(actor, () => put(request, name, body))
        reply.code(isNew ? 201 : 200)
        return send(reply, name)
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: '/rules/{name}',
      id: 'patchRule',
      tag: 'rules',
      summary: 'Change fields of a rule',
      about:
        'An operator may send isActive alone, which switches the rule on or off. A new name starts with new counters.',
      needs: 'switchRules',
      alsoNeeds: ({ body }) => (Object.keys(body).every((name) => name === SWITCH) ? undefined : 'writeRules'),
      locks: true,
      params: NAMED,
      body: PATCHED,
      explain: (body) => explainWith(RULES, Object(body), 'part', clock.now()),
      answers: { 200: { about: 'The rule, changed.', schema: RuleSchema, tagged: true } },
      async handle({ params: { name }, body, actor, request }, reply) {
        await write(actor, () =>
          unlessTaken('There is another rule of this name already.', () =>
            editRow(request, {
              find: () => findRule(database, name),
              write: async (seen) =>
                (await rateLimitRule.updateMany({ where: seen ? { ...seen } : { name }, data: body })).count,
              missing: missing(name),
            }),
          ),
        )
        return send(reply, typeof body.name === 'string' ? body.name : name)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/rules/{name}',
      id: 'deleteRule',
      tag: 'rules',
      summary: 'Delete a rule',
      needs: 'writeRules',
      locks: true,
      params: NAMED,
      answers: { 204: { about: 'It is deleted.' } },
      async handle({ params: { name }, actor, request }, reply) {
        await write(actor, () =>
          editRow(request, {
            find: () => findRule(database, name),
            write: async (seen) => (await rateLimitRule.deleteMany({ where: seen ? { ...seen } : { name } })).count,
            missing: missing(name),
          }),
        )
        reply.code(204)
      },
    }),
  ]
}

function missing(name: string): string {
  return `There is no rule ${JSON.stringify(name)}.`
}

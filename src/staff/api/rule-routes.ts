import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { RULES } from '../../rules/rule.js'
import type { RuleEntry } from '../../rules/rule-fields.js'
import { requireMay } from '../shell/staff-member.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { editRow } from './edit-row.js'
import { findRule, RulePages } from './entry-pages.js'
import { closed, PAGE, pageSchema, parsedBy, RuleSchema, withDefaults, writtenFields } from './entry-schemas.js'
import { ETAG, etagFor, IF_MATCH } from './etag.js'
import { asInput, InvalidInputError, NotFoundError } from './problems.js'
import { PreviewSchema } from './report-schemas.js'
import { setJsonType } from './streamed-json.js'

const Name = Type.String({ minLength: 1, maxLength: 100, description: "The rule's name." })
const NAMED = Type.Object({ name: Name })
/** The only field of a rule that takes no more than to switch it. */
const SWITCH = 'isActive'
const MAX_HOURS = 720
const RULE = answer('The rule.', RuleSchema, ETAG)

export function addRuleRoutes(app: ApiScope, context: ApiContext): void {
  const { database, clock, limits, write } = context
  const pages = new RulePages(database, clock)

  async function send(reply: FastifyReply, name: string): Promise<RuleEntry> {
    const rule = await findRule(database, name)
    if (rule === undefined) throw new NotFoundError(missing(name))
    reply.header('etag', etagFor(rule))
    return rule
  }

  app.get(
    '/rules',
    operation('rules', 'listRules', 'read', 'List rules', {
      description: 'All rules, active or not, by priority (highest first), then by name.',
      querystring: closed(PAGE),
      response: { 200: answer('A page of rules.', pageSchema(RuleSchema)) },
    }),
    async ({ query }, reply) => {
      const page = await pages.read(query)
      setJsonType(reply)
      return page
    },
  )
  app.post(
    '/rules/preview',
    operation('rules', 'previewRule', 'read', 'Preview a rule', {
      description: 'What a rule would have done to the logged requests. Nothing is written.',
      body: closed({
        rule: writtenFields(RULES, ['name', 'pathPattern', 'rate']),
        hours: Type.Optional(Type.Number({ minimum: 1, maximum: MAX_HOURS, default: 24 })),
      }),
      response: { 200: answer('The preview.', PreviewSchema) },
    }),
    async ({ body: { rule, hours } }) =>
      asInput(() => limits.rules.preview(withDefaults(RULES.fields, rule), { hours }), 'body', 'rule'),
  )
  app.get(
    '/rules/*',
    operation('rules', 'getRule', 'read', 'Read a rule', { params: NAMED, response: { 200: RULE } }),
    async ({ params: { name } }, reply) => send(reply, name),
  )
  app.put(
    '/rules/*',
    operation('rules', 'putRule', 'writeRules', 'Create or replace a rule', {
      description: 'Fields that are left out take their defaults.',
      params: Type.Object({ name: parsedBy(RULES.fields.name.parse, Name) }),
      headers: IF_MATCH,
      body: writtenFields(RULES, ['pathPattern', 'rate']),
      response: {
        200: answer('The rule, replaced.', RuleSchema, ETAG),
        201: answer('The rule, created.', RuleSchema, ETAG),
      },
    }),
    async (request, reply) => {
      const { body } = request
      const { name } = request.params
      if (body.name !== undefined && body.name !== name) {
        const detail = `differs from the name in the address, ${JSON.stringify(name)}: leave it out`
        throw new InvalidInputError([{ in: 'body', field: 'name', detail }])
      }
      const fields = withDefaults(RULES.fields, { ...body, name })
      const isNew = await write(request, () => editRow(request, context, ruleNamed(name), fields))
      reply.code(isNew ? 201 : 200)
      return send(reply, name)
    },
  )
  app.patch(
    '/rules/*',
    operation('rules', 'patchRule', 'switchRules', 'Change fields of a rule', {
      description:
        'An operator may send `isActive` alone, which enables or disables the rule. A rule with a new name starts with new counters.',
      params: NAMED,
      headers: IF_MATCH,
      body: writtenFields(RULES),
      response: { 200: answer('The rule, changed.', RuleSchema, ETAG) },
    }),
    async (request, reply) => {
      const { name } = request.params
      const data = request.body
      if (Object.keys(data).some((field) => field !== SWITCH)) requireMay(request, 'writeRules')
      const rule = { ...ruleNamed(name), missing: missing(name) }
      await write(request, () => editRow(request, context, rule, data))
      return send(reply, typeof data.name === 'string' ? data.name : name)
    },
  )
  app.delete(
    '/rules/*',
    operation('rules', 'deleteRule', 'writeRules', 'Delete a rule', {
      params: NAMED,
      headers: IF_MATCH,
      response: { 204: answer('The rule is deleted.') },
    }),
    async (request, reply) => {
      const { name } = request.params
      const rule = { ...ruleNamed(name), missing: missing(name) }
      await write(request, () => editRow(request, context, rule, undefined))
      reply.code(204)
    },
  )
}

function ruleNamed(name: string) {
  const taken = 'Another rule already has this name.'
  return { description: RULES, where: 'name = $1', value: name, taken }
}

function missing(name: string): string {
  return `There is no rule ${JSON.stringify(name)}.`
}

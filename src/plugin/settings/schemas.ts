/**
 * The schemas of settings, each with a description for messages. They are compiled when the package is built
 * (`scripts/generate.ts`), so that a server validates its settings without loading TypeBox. What this file imports can have
 * none of the validators that are made from it.
 */
import Type from 'typebox'
import { ADDRESS_FORMS } from '../../clients/address-privacy.js'
import { NAMESPACE, NAMESPACE_ALLOWED } from '../../ground/storable.js'
import { UNIT, UNIT_ALLOWED } from '../../ground/unit.js'
import { HEADER_VARIANTS } from '../../http/header-variant.js'
import { STORE_ERROR_ACTIONS } from '../../limiter/fallback.js'
import { WEBHOOK_FORMATS } from '../../operations/alerts/channels/webhook-format.js'

export const flag = Type.Boolean({ description: 'true or false' })
export const text = Type.String({ description: 'a text' })
export const texts = Type.Array(text, { description: 'a list of texts' })
export const filledText = Type.String({ minLength: 1, maxLength: 2000, description: '1 to 2000 characters' })
export const secret = Type.String({ minLength: 16, description: 'a text of at least 16 characters' })
export const callback = Type.Function([], Type.Unknown(), { description: 'a function' })
export const reference = Type.Object({}, { description: 'an object' })
export const flagOrReference = Type.Union([flag, reference], { description: 'true, false or an object' })
export const textOrReference = Type.Union([filledText, reference], { description: 'a text or an object' })
export const textOrTexts = Type.Union([text, Type.Array(text, { minItems: 1 })], { description: 'a text or texts' })
export const textsByName = Type.Record(Type.String(), text, { description: 'an object of texts' })

export const schemaName = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$',
  description: 'a name of letters, digits and _, at most 63',
})
export const namespace = Type.String({ pattern: NAMESPACE.source, description: NAMESPACE_ALLOWED })
export const unitNames = Type.Union([Type.Literal(false), Type.Array(Type.String({ pattern: UNIT.source }))], {
  description: `false, or a list of units such as tokens, each ${UNIT_ALLOWED}`,
})
export const daysText = Type.String({
  pattern: '^[1-9][0-9]{0,3}d$',
  description: 'a number of days such as 400d, 1d to 9999d',
})
export const limitName = Type.String({
  pattern: '^[\\x20-\\x7e]{1,100}$',
  description: '1 to 100 printable ASCII characters',
})
export const routingKey = Type.String({
  pattern: '^[A-Za-z0-9_-]{16,64}$',
  description: 'the integration key of PagerDuty',
})

export const loggedEvents = Type.Union(
  [
    flag,
    Type.Literal('blocked'),
    Type.Object(
      {
        allowed: Type.Optional(Type.Enum(['each', 'collapsed', 'sums'])),
        refused: Type.Optional(Type.Enum(['each', 'collapsed'])),
      },
      { additionalProperties: false },
    ),
  ],
  {
    description:
      "true, false, 'blocked', or { allowed: 'each', 'collapsed' or 'sums', refused: 'each' or 'collapsed' }",
  },
)
export const hook = Type.Enum(['onRequest', 'preHandler'], { description: 'onRequest or preHandler' })
export const headerVariant = choice(HEADER_VARIANTS)
export const storeErrorAction = choice(STORE_ERROR_ACTIONS)
export const webhookFormat = choice(WEBHOOK_FORMATS)
export const privacy = Type.Object(
  { addresses: Type.Enum([...ADDRESS_FORMS]) },
  { additionalProperties: false, description: `{ addresses: … } with one of ${ADDRESS_FORMS.join(', ')}` },
)

export const alertThreshold = Type.Integer({
  minimum: 1,
  description: 'an integer, 1 or more (leave it out to turn alerts off)',
})
export const alertCooldown = Type.Number(range(0, 31_536_000, 'seconds'))
export const cacheTimeout = Type.Number(range(0, 86_400, 'seconds'))
export const retention = Type.Number(range(0, 36_500, 'days'))
export const storeTimeout = Type.Integer(range(1, 60_000, 'milliseconds'))
export const listsRefresh = Type.Number(range(1, 31_536_000, 'seconds'))
export const bufferLength = Type.Integer(range(1, 1_000_000, 'an integer'))
export const subnet = Type.Integer(range(1, 128, 'an integer'))

function choice(values: readonly string[]) {
  return Type.Enum([...values], { description: values.join(', ') })
}

function range(minimum: number, maximum: number, unit: string) {
  return { minimum, maximum, description: `${unit}, ${minimum} to ${maximum}` }
}

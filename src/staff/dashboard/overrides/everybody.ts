import { clientAddress } from '../../../clients/client-networks.js'
import { parseRate } from '../../../limiter/rate.js'
import { spelled, type Values } from '../../../rules/description.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import type { FormQuestion } from '../entries/entry-form-routes.js'
import { visible } from '../format.js'

const FAMILY_NAMES = { ipv4: 'IPv4', ipv6: 'IPv6' }

/** Returns what to ask before an override denies every client of an address family; undefined for others, and wrong ones. */
export function askAboutEverybody(values: Values, nowMs: number): FormQuestion | undefined {
  if (Object.keys(OVERRIDES.errors(values, 'new', nowMs)).length > 0) return undefined
  const { client, effect, pathPattern }: Values = { ...values, ...spelled(OVERRIDES.fields, values) }
  if (typeof client !== 'string' || typeof effect !== 'string' || !deniesAll(effect)) return undefined
  const network = clientAddress(client)
  if (network?.bits !== 0) return undefined
  const everybody = `every ${FAMILY_NAMES[network.family]} client`
  const where =
    typeof pathPattern === 'string' && pathPattern !== '' ? ` where the path matches ${visible(pathPattern)}` : ''
  return { text: `This denies ${everybody}${where}.`, button: `Deny ${everybody}`, value: client }
}

function deniesAll(effect: string): boolean {
  if (effect === 'deny' || effect === 'allow') return effect === 'deny'
  const rate = parseRate(effect)
  return (rate.windows ?? [rate]).some(({ limit }) => limit === 0)
}

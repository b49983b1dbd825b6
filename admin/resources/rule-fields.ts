import type { PropertyOptions } from 'adminjs'
import { ALGORITHMS } from '../../src/limiter/algorithm.js'
import { field, filterBy, MOMENT, only } from './fields.js'

/** What of a rule can be written. */
export const EDITED = [
  'name',
  'description',
  'pathPattern',
  'method',
  'key',
  'rate',
  'algorithm',
  'priority',
  'block',
  'isActive',
]

const ALGORITHM_TEXTS: Readonly<Record<(typeof ALGORITHMS)[number], string>> = {
  fixed_window: 'Fixed window: periods by the clock',
  sliding_window: 'Sliding window: the period before now',
  token_bucket: 'Token bucket: a burst, then evenly',
  leaky_bucket: 'Leaky bucket: a burst, then evenly',
}

export const ALGORITHM_OPTIONS = ALGORITHMS.map((value) => ({ value, label: ALGORITHM_TEXTS[value] }))

const KEY_OPTIONS = [
  { value: 'ip', label: 'IP address' },
  { value: 'user', label: 'User' },
  { value: 'header:', label: 'Header' },
]

/** How the fields of a rule are shown and edited. */
export function ruleFields(): Record<string, PropertyOptions> {
  return {
    id: only(),
    search: { ...only('filter'), ...field({ kind: 'text', help: 'In name, path pattern and description.' }) },
    name: field({
      kind: 'text',
      help: 'Printable ASCII without a colon. It names the counters: another name starts afresh.',
      example: 'api-writes',
    }),
    description: field({ kind: 'lines', help: 'A note for whoever reads the rule next.' }),
    pathPattern: field({
      kind: 'code',
      help: 'A regular expression (RE2) that is searched for in the path: ^/api/ for everything below /api.',
      example: '^/api/',
    }),
    method: field({ kind: 'methods', help: 'GET also covers HEAD.', initial: 'ALL' }),
    key: {
      ...field({
        kind: 'key',
        options: KEY_OPTIONS,
        help: 'Whose requests are counted together. Where there is no user or no such header, the IP address counts.',
        initial: 'ip',
      }),
      ...filterBy(KEY_OPTIONS),
    },
    rate: field({
      kind: 'code',
      help: 'Requests per period: 100/m, 1000/h, 10/30s, 5000/7d. A count of 0 refuses everything.',
      example: '100/m',
    }),
    algorithm: {
      ...field({ kind: 'select', options: ALGORITHM_OPTIONS, initial: 'fixed_window' }),
      ...filterBy(ALGORITHM_OPTIONS),
    },
    priority: {
      ...field({
        kind: 'number',
        help: 'Of the rules that match, the one with the highest priority decides.',
        initial: 0,
      }),
      components: { edit: 'RateLimitField', list: 'RateLimitInList' },
    },
    block: field({
      kind: 'boolean',
      label: 'Refuse requests over the limit',
      help: 'Off: requests are counted and logged, and nobody is refused.',
      initial: true,
    }),
    isActive: {
      ...field({ kind: 'boolean', label: 'Apply this rule', help: 'Only active rules apply.', initial: true }),
      components: { edit: 'RateLimitField', list: 'RateLimitInList', filter: 'RateLimitSelect' },
    },
    preview: { ...only('edit'), components: { edit: 'RateLimitPreview' } },
    createdAt: { ...only('show'), ...MOMENT },
    updatedAt: { ...only('show'), ...MOMENT },
  }
}

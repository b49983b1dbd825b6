/** The shares of a window at which the app and operators are told that a client has used so much of it. */

import { type Field, upTo } from '../../ground/field.js'
import { asText } from '../../ground/storable.js'

const MAX_SHARES = 3
const MAX_LENGTH = 20
const SHARE = '(?:100|[1-9][0-9]?)'
const WHOLE_SHARE = new RegExp(`^${SHARE}$`)

/** Parses shares in percent, such as `80,100`; null for an empty text, with which nobody is told. */
export function parseNoticeAt(value: unknown): readonly number[] | null {
  const text = asText(value).trim()
  if (text === '') return null
  const shares = text.split(',').map((share) => share.trim())
  const areRising = shares.every((share, index) => index === 0 || Number(share) > Number(shares[index - 1]))
  if (shares.length <= MAX_SHARES && areRising && shares.every((share) => WHOLE_SHARE.test(share))) {
    return shares.map(Number)
  }
  throw new Error(
    `${JSON.stringify(text)} is not valid: give one to three whole numbers of percent, 1 to 100, that rise, such as 80 or 50,80,100, or leave it empty`,
  )
}

/** Returns the shares of a text that has them in another order, or more than once. */
function spellShares(typed: string): string | undefined {
  const shares = new Set((typed.match(/\d+/g) ?? []).map(Number).sort((one, other) => one - other))
  const text = [...shares].join(',')
  try {
    return parseNoticeAt(text) === null ? undefined : text
  } catch {
    return undefined
  }
}

export const NOTICE_AT = {
  kind: 'text',
  default: '',
  parse: upTo(MAX_LENGTH, parseNoticeAt),
  tidy: (typed) =>
    typed
      .replaceAll('%', ' ')
      .trim()
      .replace(/[\s,;]+/g, ','),
  guess: spellShares,
  spell: (value) => (parseNoticeAt(value) ?? []).join(','),
  schema: { maxLength: MAX_LENGTH, pattern: `^(?: *${SHARE} *(?:, *${SHARE} *){0,${MAX_SHARES - 1}})?$` },
  about:
    'The percentages of a window, such as 80,100, at which the app and the channels of alerts are told of a client.',
  help: 'Empty: nobody is told. Else one to three percentages, such as 80 or 50,80,100: when a client has first used so much of a window, onNotice is called, and one message goes through the channels of alerts.',
  panel: { title: 'Notices at', group: 'Counting', input: 'text', example: '80,100' },
} as const satisfies Field

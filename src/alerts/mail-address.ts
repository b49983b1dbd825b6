/** Matches one address and nothing else: no second one after a comma, no header after a line break. */
export const MAIL_ADDRESS = /^[^\s@,;:<>()[\]"\\\p{Cc}]{1,64}@[^\s@,;:<>()[\]"\\\p{Cc}]{1,255}$/u

/** Matches an address, or one with a name: `Rate limits <alerts@example.com>`. */
const SENDER = /^(?:[^<>\p{Cc}]{1,100}<(?<named>[^<>]+)>|(?<bare>[^<>]+))$/u

export function isSender(text: string): boolean {
  const { named, bare } = SENDER.exec(text.trim())?.groups ?? {}
  return MAIL_ADDRESS.test(named ?? bare ?? '')
}

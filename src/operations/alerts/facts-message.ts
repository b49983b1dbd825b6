/** A message about one thing: a sentence, its facts, and where to go. */
export interface FactsMessage {
  /** The identity that all messages about one thing share, for receivers that put them together. */
  readonly id: string
  /** The title has no text that a client wrote: subjects end up in lists, notifications and logs of mail servers. */
  readonly title: string
  /** The sentence has no text that somebody wrote: some formats have markup there. */
  readonly sentence: string
  /** The facts that are worth a line each, with control and invisible characters escaped. */
  readonly facts: readonly Fact[]
  readonly links: readonly MessageLink[]
  readonly kind: 'alarm' | 'notice' | 'over' | 'test'
  /** The object for receivers of JSON. */
  readonly json: object
}

export interface Fact {
  readonly name: string
  readonly value: string
  /** The colour in mails, as the light pages have it. */
  readonly colour?: string
}

export const REFUSED_COLOUR = '#b3261e'
export const DENIED_COLOUR = '#6a3fa0'

export interface MessageLink {
  readonly text: string
  /** The address, without a character that a message would interpret. */
  readonly url: string
}

/** Returns the message that proves that a channel works. */
export function createTestMessage(publicUrl: string | undefined): FactsMessage {
  const sentence = 'This is a test message: alerts of the rate limiter arrive here. Nothing has to be done.'
  return {
    id: 'test',
    title: 'Test message',
    sentence,
    facts: [],
    links: publicUrl === undefined ? [] : [{ text: 'Open the alerts', url: `${publicUrl}alerts.html` }],
    kind: 'test',
    json: { test: true, message: sentence },
  }
}

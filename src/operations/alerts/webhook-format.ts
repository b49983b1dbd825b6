/** The formats of webhooks: the documented JSON of this package, or that of a chat or paging system. */
export const WEBHOOK_FORMATS = ['json', 'slack', 'teams', 'discord', 'pagerduty'] as const

export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number]

/** Discord wants a number: the red, and the green, of the staff pages. */
export const RED = 0xb42318
export const GREEN = 0x067647

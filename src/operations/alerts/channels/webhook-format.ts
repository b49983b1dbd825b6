/** The formats of webhooks: the documented JSON of this package, or that of a chat or paging system. */
export const WEBHOOK_FORMATS = ['json', 'slack', 'teams', 'discord', 'pagerduty'] as const

export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number]

import { readFile } from 'node:fs/promises'
import { packagePath } from '../package-root.js'
import { type AlertMessage, listedKeys, listOffenders, toSentence, toTitle } from './message.js'

/** The most offenders that one mail lists; the report has the others. */
const MAX_LINES = 100

export interface EmailText {
  readonly subject: string
  readonly text: string
  readonly html: string
}

type Render = (context: object) => string

let templates: Promise<{ text: Render; html: Render }> | undefined

/** Renders a message as a mail. */
export async function renderEmail(message: AlertMessage): Promise<EmailText> {
  templates ??= readTemplates().catch((error: unknown) => {
    templates = undefined
    throw error
  })
  const { text, html } = await templates
  const title = toTitle(message)
  const offenders = listOffenders(message, MAX_LINES)
  const resolved = listedKeys(message.resolved, MAX_LINES)
  const context = {
    title,
    sentence: toSentence(message),
    threshold: message.threshold,
    days: message.days,
    offenders: offenders.lines,
    more: offenders.more,
    resolved: resolved.lines,
    more_resolved: resolved.more,
  }
  return { subject: `[fastify-smart-ratelimit] ${title}`, text: text(context), html: html(context) }
}

async function readTemplates(): Promise<{ text: Render; html: Render }> {
  const { default: Handlebars } = await import('handlebars')
  // A separate instance, so that the helpers of a host do not affect the mails.
  const handlebars = Handlebars.create()
  const read = (name: string) => readFile(packagePath('templates', name), 'utf8')
  const [text, html] = await Promise.all([read('alert.txt.hbs'), read('alert.html.hbs')])
  return { text: handlebars.compile(text, { noEscape: true }), html: handlebars.compile(html) }
}

/** The forms of a client's page, sent as a browser does, without one. */
import type { Answer, RequestOptions } from './http-client.js'
import { cookieOf, DASHBOARD } from './staff-app.js'

type Send = (path: string, options?: RequestOptions) => Promise<Answer>

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#x27': "'",
  '#x3D': '=',
  '#x60': '`',
}

/** Returns the text that an escaped one shows. */
export function unescapeHtml(text: string): string {
  return text.replace(/&(#?\w+);/g, (entity, name: string) => ENTITIES[name] ?? entity)
}

/** Returns a page without the marks of its moments. */
export function withoutTimes(text: string): string {
  return text.replace(/<\/?time[^>]*>/g, '')
}

/** A page of a client, with what its forms would send. */
export interface OpenedPage extends Answer {
  /** Returns the fields of the first form of an action; undefined where the page has none. */
  fieldsOf(action: string): Readonly<Record<string, string>> | undefined
  /** The cookies that the browser holds now. */
  readonly cookie: string
}

/** The headers of a browser that posts a form of this origin. */
export const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

export async function openClient(send: Send, client: string, cookie = '', days = 1): Promise<OpenedPage> {
  const query = new URLSearchParams({ client, days: String(days) })
  const answer = await send(`${DASHBOARD}client.html?${query}`, { headers: { cookie } })
  return {
    ...answer,
    cookie: keepCookies(cookie, answer),
    fieldsOf(action) {
      const forms = [...answer.text.matchAll(/<form method="post" action="([^"]*)">(.*?)<\/form>/gs)]
      const form = forms.find(([, its]) => its === action)?.[2]
      if (form === undefined) return undefined
      const inputs = [...form.matchAll(/<input[^>]* name="([^"]*)" value="([^"]*)"/g)]
      return Object.fromEntries(inputs.map(([, name = '', value = '']) => [name, unescapeHtml(value)]))
    },
  }
}

/** Returns the cookies that a browser holds after an answer. */
export function keepCookies(held: string, { headers }: Answer): string {
  const texts = `${held}; ${cookieOf(headers)}`.split('; ').filter((text) => text !== '')
  const cookies = new Map(texts.map((text) => [text.slice(0, text.indexOf('=')), text]))
  return [...cookies.values()].filter((text) => !text.endsWith('=')).join('; ')
}

/** Posts the form of an action, as a page of this origin does. */
export function act(
  send: Send,
  page: OpenedPage,
  action: 'block' | 'raise' | 'allow' | 'end',
  fields: Readonly<Record<string, string>> = {},
  headers: Readonly<Record<string, string>> = SAME_ORIGIN,
): Promise<Answer> {
  const form = page.fieldsOf(action) ?? page.fieldsOf('block') ?? {}
  return send(DASHBOARD + action, {
    method: 'POST',
    body: new URLSearchParams({ ...form, keep: 'ever', ...fields }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: page.cookie, ...headers },
  })
}

/** Returns the notice of a page, and whether it is of a success. */
export function noticeOf({ text }: Answer): readonly [kind: string, text: string] | undefined {
  const found = [...text.matchAll(/<p class="notice (success|failure)"[^>]*>(.*?)<\/p>/g)]
  if (found.length > 1) throw new Error('The page has several notices')
  const [, kind, words] = found[0] ?? []
  return kind === undefined || words === undefined ? undefined : [kind, unescapeHtml(withoutTimes(words))]
}

/** Returns the rows of a table's body in HTML, as readers see them. */
export function readRows(body: string): string[] {
  return body
    .split('</tr>')
    .map((row) =>
      row
        .replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((row) => row !== '')
}

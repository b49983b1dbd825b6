/** Uses the forms of the staff pages as a browser without JavaScript does. */
import type { TestContext } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { RateLimitOptions } from '../../src/index.js'
import type { StaffRole } from '../../src/staff/shell/roles.js'
import { unescapeHtml } from './client-forms.js'
import type { Provider } from './databases.js'
import type { Answer } from './http-client.js'
import { cookieOf, DASHBOARD, startWithStaff } from './staff-app.js'

type Fields = Readonly<Record<string, string>>
/** Boxes of one name send several values. */
type SentFields = Readonly<Record<string, string | readonly string[]>>

/** Returns the fields of the form of Undo that a notice has, which is sent to `change-revert`. */
export function undoFields(page: string): Fields {
  const [, form = ''] =
    /<form class="buttons after-notice"[^>]*action="change-revert">([\s\S]*?)<\/form>/.exec(page) ?? []
  // The token is that of the browser which opens the form.
  const fields = hiddenFields(form).filter(([name]) => name !== 'token')
  return Object.fromEntries(fields.map(([name, value]) => [name, unescapeHtml(value)]))
}

export interface OpenedForm extends Answer {
  /**
   * Sends the form with its hidden fields, and others in place of what it has.
   *
   * @param action the address that the form or its button names; that of the page unless given
   */
  submit(fields: SentFields, headers?: Fields, action?: string): Promise<Answer>
}

/** Starts an app with the staff pages, for the member of staff `alice`. */
export async function openForms(
  t: TestContext,
  provider: Provider,
  role: StaffRole = 'admin',
  plugin: RateLimitOptions = { useDynamicRules: true },
  routes?: (app: FastifyInstance) => void,
) {
  const started = await startWithStaff(t, provider, { isStaff: () => ({ actor: 'alice', role }) }, plugin, routes)
  /** @param after the answer whose cookies are sent */
  const get = (address: string, after?: Answer) =>
    started.request(DASHBOARD + address, after && { headers: { cookie: cookieOf(after.headers) } })

  async function open(address: string): Promise<OpenedForm> {
    const page = await get(address)
    const cookie = cookieOf(page.headers)
    const hidden = new URLSearchParams(hiddenFields(page.text))
    return {
      ...page,
      submit(fields, headers = {}, action = address) {
        const body = new URLSearchParams(hidden)
        for (const [name, value] of Object.entries(fields)) {
          body.delete(name)
          for (const each of [value].flat()) body.append(name, each)
        }
        return started.request(DASHBOARD + action, {
          method: 'POST',
          body: body.toString(),
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            'sec-fetch-site': 'same-origin',
            cookie,
            ...headers,
          },
        })
      },
    }
  }

  return {
    ...started,
    get,
    open,
    /** Goes where an answer leads, as the browser that got it. */
    follow: ({ headers }: Answer) =>
      started.request(DASHBOARD + headers.location?.replace(/^\.\/|#.*/g, ''), {
        headers: { cookie: cookieOf(headers) },
      }),
    submit: async (address: string, fields: SentFields, action?: string) =>
      (await open(address)).submit(fields, {}, action),
  }
}

/** Returns the hidden fields that every form of a page has, but not those of boxes. */
function hiddenFields(html: string): [name: string, value: string][] {
  const fields = html.matchAll(/<input type="hidden" name="(token|id|version|back|mark)" value="([^"]*)">/g)
  return [...fields].map(([, name = '', value = '']) => [name, value])
}

import { createHash, randomUUID } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Handlebars } from '../../generated/handlebars.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { packagePath } from '../../ground/package-root.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { type Navigation, NO_NAVIGATION } from './navigation.js'
import type { StaffRole } from './roles.js'
import { knownMember } from './staff-member.js'

/** The partials of pages, by the names of their templates. */
const PARTIALS = [
  'also',
  'as-of',
  'change-list',
  'changes',
  'chart',
  'chips',
  'client-overrides',
  'client-quick',
  'clients',
  'curl',
  'event-log',
  'fields',
  'figures',
  'filter',
  'found-clients',
  'incidents',
  'live-bar',
  'navigation',
  'near-limit',
  'networks',
  'nothing',
  'notices',
  'policy-then',
  'refused-switch',
  'result',
  'rule-found',
  'shares',
  'show-all',
  'values',
  'window-selector',
  'words',
]

/** The pages, by the names of their templates. */
const PAGE_NAMES = [
  'dashboard',
  'offender',
  'client',
  'clients-page',
  'search-results',
  'events',
  'explain',
  'rules',
  'changes-page',
  'overrides',
  'exchange',
  'tokens',
  'counters',
  'usage',
  'alerts',
  'entry-form',
  'sign-in',
  'error',
] as const
export type PageName = (typeof PAGE_NAMES)[number]

/** The HTML of pages with the same content, by what else they show. */
export type SharedHtml = Map<string, Buffer>

export interface Pages {
  send(reply: FastifyReply, page: PageName, context: object): Promise<FastifyReply>
  /**
   * Sends a page that has a long text in it, piece by piece.
   *
   * @param createContext receives what stands for the text
   * @param texts the pieces of the text, in HTML
   */
  sendLong(
    reply: FastifyReply,
    page: PageName,
    createContext: (mark: string) => object,
    texts: Iterable<string>,
  ): FastifyReply
  /**
   * Sends a page whose HTML others with the same name and navigation share.
   *
   * @param createContext called unless the HTML is there
   */
  sendShared(
    reply: FastifyReply,
    page: PageName,
    shared: SharedHtml,
    name: string,
    createContext: () => object,
  ): Promise<FastifyReply>
  /** Returns the navigation in HTML, for a page that is not one of these. */
  navigationFor(request: FastifyRequest): string
  /** Whether the templates of a host show the keys that were refused the most; those of the package show clients. */
  readonly showOffenders: boolean
  /** The script of pages that follow. */
  readonly script: string
  /**
   * The Content-Security-Policy of every answer: the one style sheet, scripts and requests of this origin, forms to it,
   * and nothing else.
   */
  readonly contentSecurityPolicy: string
}

/** The most accounts that share pages; more render a page each: a page has some hundred kilobytes. */
const MAX_SHARED = 20

export interface PagesOptions {
  /** A folder whose files replace those of the package, each by its name. */
  readonly folder?: string | undefined
  /** Returns the navigation of a page for staff, without the account. */
  readonly navigation: (request: FastifyRequest, role: StaffRole) => Navigation
}

/** Reads the templates. Each is compiled by its first use. */
export async function readPages({ folder, navigation }: PagesOptions): Promise<Pages> {
  const file = templateFinder(folder)
  const read = (name: string) => readFile(file(name), 'utf8')
  const [shell, style, script] = await Promise.all([read('shell.css'), read('style.css'), read('live.js')])
  const css = `${shell}\n${style}`
  // An instance of its own: partials must not reach the host's Handlebars, nor its helpers the pages.
  const engine = Handlebars.create()
  engine.registerHelper('moments', markMoments)
  const compile = async (name: string) => engine.compile(await read(`${name}.hbs`))
  const [layout, renderNavigation] = await Promise.all([compile('layout'), compile('navigation')])
  await Promise.all(PARTIALS.map(async (name) => engine.registerPartial(name, await compile(name))))
  const templates = new Map(await Promise.all(PAGE_NAMES.map(async (name) => [name, await compile(name)] as const)))
  const shared = { style_element: `<style>${css}</style>` }

  function render(page: PageName, context: object): string {
    const shown = { ...shared, ...context }
    return layout({ ...shown, body: templates.get(page)?.(shown) })
  }

  /** Returns the navigation for staff; strangers see no links. */
  function navigationOf(request: FastifyRequest): Navigation {
    const member = knownMember(request)
    return member === undefined ? NO_NAVIGATION : { ...navigation(request, member.role), account: member.actor }
  }

  const replaced =
    folder === undefined ? [] : await Promise.all(['dashboard', ...PARTIALS].map((name) => read(`${name}.hbs`)))
  return {
    script,
    showOffenders: replaced.some((template) => template.includes('top_offenders')),
    contentSecurityPolicy: contentSecurityPolicy(css),
    async send(reply, page, context) {
      return sendHtml(reply, render(page, { ...context, navigation: navigationOf(reply.request) }))
    },
    sendLong(reply, page, createContext, texts) {
      const mark = randomUUID()
      const html = render(page, { ...createContext(mark), navigation: navigationOf(reply.request) })
      return sendHtml(reply, Readable.from(withTexts(html, mark, texts), { objectMode: false }))
    },
    async sendShared(reply, page, shared, name, createContext) {
      const navigation = navigationOf(reply.request)
      const key = JSON.stringify([name, navigation])
      const existing = shared.get(key)
      // The page is encoded once for all.
      const html = existing ?? Buffer.from(render(page, { ...createContext(), navigation }))
      if (existing === undefined && shared.size < MAX_SHARED) shared.set(key, html)
      return sendHtml(reply, html)
    },
    navigationFor: (request) => renderNavigation(navigationOf(request)),
  }
}

function sendHtml(reply: FastifyReply, html: string | Buffer | Readable): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(html)
}

/** Yields HTML with texts in the place of a mark, and lets other work of the process run in between. */
async function* withTexts(html: string, mark: string, texts: Iterable<string>): AsyncGenerator<string> {
  const slices = new CooperativeYield()
  // A template of a host may leave the text out.
  const [before = '', behind] = html.split(mark, 2)
  yield before
  if (behind === undefined) return
  for (const text of texts) {
    yield text
    if (slices.over()) await slices.pause()
  }
  yield behind
}

/** Creates a function that returns the path of a template: in the folder of the host where that has it. */
function templateFinder(folder: string | undefined): (name: string) => string {
  const own = (name: string) => packagePath('templates', name)
  if (folder === undefined) return own
  const replacements = resolve(folder)
  if (!statSync(replacements, { throwIfNoEntry: false })?.isDirectory()) {
    throw new InvalidSettingError(
      `Option "templates" is ${JSON.stringify(folder)}: give a folder that exists, with files such as dashboard.hbs`,
    )
  }
  return (name) => {
    const replacement = join(replacements, name)
    return existsSync(replacement) ? replacement : own(name)
  }
}

function contentSecurityPolicy(css: string): string {
  const hash = createHash('sha256').update(css).digest('base64')
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    "script-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')
}

/** Matches a moment in a sentence, as the pages write it. */
const MOMENT = /(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}) UTC/g

/** Escapes a sentence, and marks up its moments, which `live.js` turns into the reader's time zone. */
export function markMoments(sentence: unknown): Handlebars.SafeString {
  const escaped = Handlebars.escapeExpression(String(sentence ?? ''))
  return new Handlebars.SafeString(
    escaped.replace(MOMENT, (moment, day: string, time: string) => `<time datetime="${day}T${time}Z">${moment}</time>`),
  )
}

import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import fastifyView from '@fastify/view'
import type { FastifyInstance, FastifyReply } from 'fastify'
import Handlebars from 'handlebars'
import { InvalidSettingError } from '../errors.js'
import { packagePath } from '../package-root.js'

/** The partials of pages, by the names of their templates. */
const PARTIALS = [
  'chart',
  'event-log',
  'filter',
  'near-limit',
  'notices',
  'nothing',
  'offenders',
  'shares',
  'summary',
  'window-selector',
]

/** The pages, by the names of their templates. */
export type PageName = 'dashboard' | 'offender' | 'sign-in' | 'error'

export interface Pages {
  send(reply: FastifyReply, page: PageName, context: object): Promise<FastifyReply>
  /** The Content-Security-Policy of every answer: the one style sheet, forms to this origin, and nothing else. */
  readonly contentSecurityPolicy: string
}

// A name of its own, since the host may have registered @fastify/view as well.
const DECORATOR = 'rateLimitView'

type RenderPage = (template: string, context: object) => Promise<string>

/**
 * Registers the templates in the scope of `app`.
 *
 * @param folder a folder whose files replace those of the package, each by its name
 */
export async function registerPages(app: FastifyInstance, folder: string | undefined, canSignOut: boolean) {
  const ownTemplates = packagePath('templates')
  const file = templateFinder(ownTemplates, folder)
  const css = await readFile(join(ownTemplates, file('style.css')), 'utf8')
  await app.register(fastifyView, {
    // An instance of its own: partials must not reach the host's Handlebars, nor its helpers the pages.
    engine: { handlebars: Handlebars.create() },
    root: ownTemplates,
    layout: file('layout.hbs'),
    propertyName: DECORATOR,
    // Compiled once, whatever NODE_ENV is: compiling takes longer than reading the report.
    production: true,
    options: {
      partials: Object.fromEntries(PARTIALS.map((name) => [name, file(`${name}.hbs`)])),
    },
    defaultContext: { style_element: `<style>${css}</style>`, can_sign_out: canSignOut },
  })
  // Fastify's `getDecorator` came with 5.3.
  const render: RenderPage = Reflect.get(app, DECORATOR)
  const templates: Readonly<Record<PageName, string>> = {
    dashboard: file('dashboard.hbs'),
    offender: file('offender.hbs'),
    'sign-in': file('sign-in.hbs'),
    error: file('error.hbs'),
  }
  const pages: Pages = {
    contentSecurityPolicy: contentSecurityPolicy(css),
    async send(reply, page, context) {
      const html = await render(templates[page], context)
      return reply.type('text/html; charset=utf-8').send(html)
    },
  }
  return pages
}

/** Creates a function that returns paths relative to the package's templates, as the view plugin takes them. */
function templateFinder(ownTemplates: string, folder: string | undefined): (name: string) => string {
  if (folder === undefined) return (name) => name
  const replacements = resolve(folder)
  if (!statSync(replacements, { throwIfNoEntry: false })?.isDirectory()) {
    throw new InvalidSettingError(
      `Option "templates" is ${JSON.stringify(folder)}: give a folder that exists, with files such as dashboard.hbs`,
    )
  }
  return (name) => {
    const replacement = join(replacements, name)
    return existsSync(replacement) ? relative(ownTemplates, replacement) : name
  }
}

function contentSecurityPolicy(css: string): string {
  const hash = createHash('sha256').update(css).digest('base64')
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')
}

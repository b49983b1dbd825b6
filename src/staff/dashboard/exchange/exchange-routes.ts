/** The page that exports rules and overrides, and imports them after it has shown what that would change. */
import { createHash } from 'node:crypto'
import createError from '@fastify/error'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { errorMessage, type FieldErrors, RuleDocumentError } from '../../../ground/errors.js'
import { CooperativeYield } from '../../../ground/time/cooperative-yield.js'
import {
  compareDocument,
  type DatedDifference,
  DOCUMENT_HEAD,
  exportSlices,
  importSeen,
} from '../../../rules/exchange/exchange.js'
import { parseDocument } from '../../../rules/exchange/parse-document.js'
import { SentExports } from '../../api/sent-exports.js'
import { setJsonType, toJson } from '../../api/streamed-json.js'
import { leadOn, takeNotice } from '../../shell/notice-cookie.js'
import { importRight } from '../../shell/roles.js'
import { changeAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, knownMember, may, requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { toMoment, visible } from '../format.js'
import type { PageRoutes } from '../page-routes.js'
import { areaTexts, differenceView, errorViews, importWords, piecesOf } from './exchange-page.js'

const DocumentTooLargeError = createError(
  'FST_RATE_LIMIT_DOCUMENT_TOO_LARGE',
  'Nothing was changed: a form may have at most 32 MiB. The command "ratelimit rules import" accepts larger documents.',
  413,
)

const PAGE = 'exchange.html'
/** Room for ten thousand rules and a hundred thousand overrides, in the encoding of forms. */
const BODY_LIMIT = 32 * 1024 * 1024
/** The longest wrong document that is shown again, to be corrected. */
const MAX_WRONG = 262_144
/** The version that a page has shown: the revision of the rules, and the hash of the document. */
const VERSION = /^(\d{1,15})\.([\w-]{43})$/

/** The content of the form: the document, as text, and whether rows that it lacks stay. */
interface Sent {
  readonly text: string
  readonly keep: boolean
}

interface Shown extends Sent {
  readonly document?: unknown
  readonly problem?: string
  readonly errors?: FieldErrors
  readonly difference?: DatedDifference
}

export function registerExchangeRoutes(routes: PageRoutes): void {
  const { app, pages, database, clock } = routes
  const exports = new SentExports()

  async function sendExport(request: FastifyRequest, reply: FastifyReply) {
    const stream = await fromDatabase(
      exports.send(
        knownMember(request)?.actor ?? '',
        (receive) => exportSlices(database, clock, (slices) => receive(toJson(DOCUMENT_HEAD, slices))),
        () => !reply.raw.destroyed,
      ),
    )
    reply.header('content-disposition', 'attachment; filename="ratelimit-rules.json"')
    setJsonType(reply)
    return stream
  }

  async function takeForm(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const sent = { text: form.get('document') ?? '', keep: form.get('keep') === 'true' }
    let document: unknown
    try {
      document = await parseDocument(sent.text)
      if (form.get('do') === 'import') return await importShown(request, reply, sent, document, form.get('version'))
      return await send(request, reply, { ...sent, document, difference: await compare(document, sent) })
    } catch (error) {
      if (document === undefined && error instanceof SyntaxError) {
        const problem = `The document is not valid JSON: ${visible(errorMessage(error))}.`
        return refuse(request, reply, {
          ...sent,
          problem: /\S/.test(sent.text) ? problem : 'There is no document: paste one, or choose a file.',
        })
      }
      if (!(error instanceof RuleDocumentError)) throw error
      return refuse(request, reply, { ...sent, document, problem: 'Nothing was imported.', errors: error.errors })
    }
  }

  function compare(document: unknown, { keep }: Sent): Promise<DatedDifference> {
    return fromDatabase(compareDocument(database, clock, document, keep))
  }

  /** Imports a document if the page showed this one, and what it would change now. */
  async function importShown(
    request: FastifyRequest,
    reply: FastifyReply,
    sent: Sent,
    document: unknown,
    version: string | null,
  ) {
    const right = importRight(document)
    requireActor(request, right)
    const [, revision = '', hash] = VERSION.exec(version ?? '') ?? []
    const isShown = hash === (await hashOf(sent))
    const imported = isShown
      ? await changeAs(request, right, database, () =>
          importSeen(database, clock, document, sent.keep, Number(revision)),
        )
      : undefined
    if (imported?.result === undefined) {
      const what = isShown ? 'rules or overrides were changed since' : 'this is not the document that was compared'
      return refuse(request, reply, {
        ...sent,
        document,
        problem: `Nothing was imported: ${what}. Below is what the import would change now.`,
        difference: await compare(document, sent),
      })
    }
    const text = `Imported: ${importWords(imported.result)}.`
    return leadOn(request, reply, PAGE, PAGE, { succeeded: true, text, typed: {}, undo: imported.undo })
  }

  function refuse(request: FastifyRequest, reply: FastifyReply, shown: Shown) {
    reply.code(400)
    return send(request, reply, shown)
  }

  async function send(request: FastifyRequest, reply: FastifyReply, shown: Shown) {
    const { text, keep, document, problem, errors = {}, difference } = shown
    const actor = actorWith(request, 'read')
    const version = difference && `${difference.revision}.${await hashOf(shown)}`
    const isLeftOut = difference === undefined && text.length > MAX_WRONG
    const createContext = (mark: string) => ({
      page: {
        title: 'Import and export',
        subtitle: 'Rate limits',
        notice: takeNotice(request, reply, PAGE),
        token: actor === undefined ? undefined : issueFormToken(request, reply, actor),
        may_write: may(request, 'writeOverrides'),
        may_write_rules: may(request, 'writeRules'),
        problem,
        is_wrong: problem !== undefined && difference === undefined,
        errors: errorViews(document, errors),
        version,
        ...(difference !== undefined && {
          difference: differenceView(difference),
          may_import: may(request, importRight(document)),
        }),
        document: mark,
        is_left_out: isLeftOut,
        keep,
        now: toMoment(clock.now()),
      },
    })
    return pages.sendLong(reply, 'exchange', createContext, isLeftOut ? [] : areaTexts(text))
  }

  app.register(async (scope) => {
    guardActions(scope, routes, 'read', BODY_LIMIT)
    // The handler of all pages answers what a child throws.
    scope.setErrorHandler((error: FastifyError) => {
      throw error.code === 'FST_ERR_CTP_BODY_TOO_LARGE' ? new DocumentTooLargeError() : error
    })
    scope.get(`/${PAGE}`, staffRoute('exchange'), (request, reply) => send(request, reply, { text: '', keep: false }))
    scope.post<{ Body: StaffForm }>(`/${PAGE}`, staffRoute('exchange'), takeForm)
    scope.get('/export.json', staffRoute('export'), sendExport)
  })
}

async function hashOf({ text, keep }: Sent): Promise<string> {
  const slices = new CooperativeYield()
  const hash = createHash('sha256').update(`${keep} `)
  for (const piece of piecesOf(text)) {
    hash.update(piece)
    if (slices.over()) await slices.pause()
  }
  return hash.digest('base64url')
}

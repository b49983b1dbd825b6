/** The form of a rule or an override: shows a row, creates it, changes it, and deletes it. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type SqlWork, toColumn } from '../../../database/dialect.js'
import { type FieldErrors, RuleValidationError } from '../../../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { type Description, defaultsFor, type FieldTable, spelled, type Values } from '../../../rules/description.js'
import { entryVersion } from '../../../rules/entry-version.js'
import { type IdentifiedEntry, readSomeEntries } from '../../../rules/read-entries.js'
import { changeRows } from '../../../rules/table.js'
import { withListNames } from '../../../rules/unmet-needs.js'
import { type FormControl, type FormGroup, formGroups, readFields } from '../../shell/field-form.js'
import { leadOn, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import type { Right } from '../../shell/roles.js'
import { changeAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { toMoment, visible } from '../format.js'
import type { PageRoutes } from '../page-routes.js'

/** The purpose of a form. */
export interface EntryForm<Table extends FieldTable, Identity extends keyof Table & string> {
  readonly description: Description<Table, Identity>
  /** The name of the route; its address is that with `.html`. */
  readonly name: 'rule' | 'override'
  /** The list that the form leads back to. */
  readonly list: string
  readonly listTitle: string
  /** The right that writing takes. */
  readonly right: Right
  /** The fields of a stored row for which an address may propose values. */
  readonly proposed: readonly (keyof Table & string)[]
  /**
   * The buttons that save nothing, by their value: each returns what the page shows beside the form.
   *
   * @throws RuleValidationError for wrong fields
   */
  readonly checks: Readonly<Record<string, FormCheck>>
  /** Returns what to ask before the form is saved; undefined for nothing. */
  readonly question?: (values: Values, nowMs: number) => FormQuestion | undefined
  /** Returns what the form says of other rows. */
  readonly notes?: (values: Values, stored: Values | undefined) => Promise<FormNotes>
  /** Returns what the page of a stored row shows beside the form. */
  readonly beside?: (request: FastifyRequest, reply: FastifyReply, row: IdentifiedEntry<Table>) => Promise<object>
}

/** The question of a form before it does something that may be a mistake: a second button answers it. */
export interface FormQuestion {
  readonly text: string
  readonly button: string
  /** The value that the button sends as `confirmed`: a form that says something else since is asked about again. */
  readonly value: string
}

/** What the form says of other rows, whether it is saved or not. */
export interface FormNotes {
  /** A row that may be changed instead of creating one. */
  readonly instead: { readonly name: string; readonly rate: string; readonly href: string } | undefined
  /** A sentence about what is unlikely to be meant. */
  readonly warning: string | undefined
}

export interface FormCheck {
  readonly text: string
  readonly run: (values: Values) => Promise<object>
}

/** The content of a page: a stored row, or what was typed. */
interface Shown<Table extends FieldTable> {
  /** The row as it is stored; undefined for a new one. */
  readonly row: IdentifiedEntry<Table> | undefined
  readonly version: string
  readonly values: Values
  readonly errors: FieldErrors
  /** A sentence about the form as a whole. */
  readonly problem?: string
  /** Sentences of the page that led here. */
  readonly notice?: string | undefined
  /** The row that has the same identity. */
  readonly takenBy?: number | undefined
  readonly question?: FormQuestion
  readonly beside?: object
}

/** The value of a button that fills a field, such as a suggested rate: `rate=12/m`. */
const FILLING = /^(\w+)=(.*)$/s

type Outcome = 'created' | 'changed' | 'deleted' | 'taken' | 'stale'

const MissingEntryError = createError('FST_RATE_LIMIT_NOT_FOUND', 'It was deleted, or it never existed.', 404)
const MAX_ID = 2_147_483_647

export function registerEntryForm<Table extends FieldTable, Identity extends keyof Table & string>(
  routes: PageRoutes,
  kind: EntryForm<Table, Identity>,
): void {
  const { app, pages, database, clock } = routes
  const { description, name, list, right, checks } = kind
  const { identity, entity } = description
  const fields = withListNames(description.fields, database.sources)
  const [identityField = ''] = identity
  const checkButtons = Object.entries(checks).map(([value, { text }]) => ({ value, text }))

  async function findById(id: number): Promise<IdentifiedEntry<Table> | undefined> {
    return (await fromDatabase(readSomeEntries(database, description, 'WHERE id = $1', [id])))[0]
  }

  async function findRequested(request: FastifyRequest): Promise<IdentifiedEntry<Table> | undefined> {
    const [id, identifier] = [lastParameter(request, 'id'), lastParameter(request, 'named')]
    if (id === '' && identifier === '') return undefined
    const rows = readSomeEntries(
      database,
      description,
      id === '' ? `WHERE ${toColumn(identityField)} = $1 ORDER BY id` : 'WHERE id = $1',
      [id === '' ? storable(identifier, MAX_KEY_LENGTH) : toId(id)],
    )
    const [row] = await fromDatabase(rows)
    if (row === undefined) throw new MissingEntryError()
    return row
  }

  /** Finds the row with the identity that another one is given. */
  async function findTaker(values: Values): Promise<number | undefined> {
    const where = identity.map((field, index) => `${toColumn(field)} = $${index + 1}`).join(' AND ')
    const given = identity.map((field) => String(values[field] ?? ''))
    return (await fromDatabase(readSomeEntries(database, description, `WHERE ${where}`, given)))[0]?.id
  }

  /** Shows a row, by its `id` or what it is `named`; or a new one, with the fields that the address has. */
  async function showForm(request: FastifyRequest, reply: FastifyReply) {
    const row = await findRequested(request)
    if (row === undefined) requireActor(request, right)
    const isFilled = (field: string) =>
      row === undefined || (kind.proposed.some((each) => each === field) && actorWith(request, right) !== undefined)
    const fill = (field: string) => (isFilled(field) && lastParameter(request, field)) || undefined
    const filled = readFields(fields, fill, clock.now())
    const values = { ...(row?.entry ?? defaultsFor(fields)), ...filled }
    const version = row === undefined ? '' : entryVersion(row.entry)
    const notice = takeNotice(request, reply, `${name}.html`)
    return send(request, reply, { row, version, values, errors: {}, notice: notice?.text })
  }

  async function takeForm(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body
    const idText = form?.get('id') ?? ''
    const id = idText === '' ? undefined : toId(idText)
    const version = form?.get('version') ?? ''
    const row = id === undefined ? undefined : await findById(id)
    if (id !== undefined && row === undefined) throw new MissingEntryError()
    // A box comes after a hidden field that says what it means when it is not ticked.
    const typed = readFields(fields, (field) => form?.getAll(field).at(-1), clock.now())
    const values = { ...(row?.entry ?? defaultsFor(fields)), ...typed }
    const shown = { row, version, values, errors: {} }
    const action = form?.get('do') ?? ''
    try {
      const check = checks[action]
      if (check !== undefined && Object.hasOwn(checks, action)) {
        return send(request, reply, { ...shown, beside: await check.run(values) })
      }
      const [, filled = '', filling] = FILLING.exec(action) ?? []
      if (Object.hasOwn(fields, filled)) {
        const fill = readFields(fields, (field) => (field === filled ? filling : undefined), clock.now())
        return send(request, reply, { ...shown, values: { ...values, ...fill } })
      }
      const question = action === 'delete' ? undefined : kind.question?.(values, clock.now())
      if (question !== undefined && form?.get('confirmed') !== question.value) {
        return refuse(request, reply, { ...shown, question })
      }
      const notes = action === 'delete' ? undefined : await notesOf(values, row)
      const { result: outcome, undo } = await changeAs(request, right, database, () =>
        write(id, version, action === 'delete' ? undefined : typed),
      )
      if (outcome === 'taken') {
        const titles = identity.map((field) => fields[field]?.panel.title.toLowerCase())
        const taken = `Another ${entity} already has this ${titles.join(' and ')}: give another one`
        return refuse(request, reply, {
          ...shown,
          errors: { [identityField]: taken },
          takenBy: await findTaker({ ...values, ...spelled(fields, values) }),
        })
      }
      if (outcome === 'stale') {
        // The other change may have come after the row was read.
        const present = id === undefined ? undefined : await findById(id)
        if (present === undefined) throw new MissingEntryError()
        return refuse(request, reply, {
          ...shown,
          row: present,
          version: entryVersion(present.entry),
          problem: `Nothing was saved: the ${entity} was changed since you opened it. What you typed is below; save again to replace the other change.`,
        })
      }
      const named: Values = outcome === 'deleted' ? (row?.entry ?? {}) : { ...values, ...spelled(fields, values) }
      const subject = visible(String(named[identityField] ?? ''))
      const warning = notes?.warning === undefined ? '' : ` ${notes.warning}`
      const text = `The ${entity} ${subject} was ${outcome}.${warning}`
      return leadOn(request, reply, list, list, { succeeded: true, text, typed: {}, undo })
    } catch (error) {
      if (!(error instanceof RuleValidationError)) throw error
      return refuse(request, reply, { ...shown, errors: error.errors })
    }
  }

  function notesOf(values: Values, row: IdentifiedEntry<Table> | undefined): Promise<FormNotes> | undefined {
    return kind.notes && fromDatabase(kind.notes(values, row?.entry))
  }

  /** @param values undefined deletes the row */
  function write(id: number | undefined, version: string, values: Values | undefined): Promise<Outcome> {
    return changeRows(database, description, clock.now(), function* (table): SqlWork<Outcome> {
      if (id === undefined) return (yield* table.create(values ?? {})) === undefined ? 'taken' : 'created'
      const [row] = yield* table.find('id = $1', [id])
      if (row === undefined || entryVersion(row.entry) !== version) return 'stale'
      if (values !== undefined) return (yield* table.update(row, values)) ? 'changed' : 'taken'
      yield* table.delete('id = $1', [id])
      return 'deleted'
    })
  }

  function refuse(request: FastifyRequest, reply: FastifyReply, shown: Shown<Table>) {
    reply.code(400)
    return send(request, reply, shown)
  }

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    { row, version, values, errors, problem, notice, takenBy, question, beside }: Shown<Table>,
  ) {
    const actor = actorWith(request, right)
    // The checks of a stored row are for everybody who reads it.
    const reader = row !== undefined && checkButtons.length > 0 ? actorWith(request, 'read') : undefined
    const sender = actor ?? reader
    const stored: Values = row?.entry ?? {}
    const proposed = actor === undefined ? [] : kind.proposed.filter((field) => isProposed(row, values, field))
    const groups = formGroups(fields, values, errors)
    const subject = row === undefined ? `New ${entity}` : visible(String(stored[identityField] ?? ''))
    return pages.send(reply, 'entry-form', {
      page: {
        title: subject,
        subtitle: 'Rate limits',
        list,
        list_title: kind.listTitle,
        id: row?.id,
        version,
        token: sender === undefined ? undefined : issueFormToken(request, reply, sender),
        read_only: actor === undefined,
        is_new: row === undefined,
        entity,
        ...leading(groups, proposed),
        checks: checkButtons,
        problem: problem ?? problemOf(errors),
        proposal: visible(notice ?? proposalOf(stored, values, proposed)),
        taken_href: takenBy === undefined ? undefined : `${name}.html?id=${takenBy}`,
        question,
        notes: actor === undefined ? undefined : await notesOf(values, row),
        ...(row !== undefined && (await kind.beside?.(request, reply, row))),
        ...beside,
        now: toMoment(clock.now()),
      },
    })
  }

  app.register(async (scope) => {
    // Checks save nothing: what saves asks for its right.
    guardActions(scope, routes, 'read')
    scope.get(`/${name}.html`, staffRoute(name), showForm)
    scope.post<{ Body: StaffForm }>(`/${name}.html`, staffRoute(name), takeForm)
  })
}

/** Returns whether a form shows a value that its row does not have. */
function isProposed(row: { readonly entry: Values } | undefined, values: Values, field: string): boolean {
  return row !== undefined && String(values[field]) !== String(row.entry[field])
}

/** Says that values are proposed; empty for none. */
function proposalOf(stored: Values, values: Values, proposed: readonly string[]): string {
  const words = proposed.map((name) => `${values[name]} is proposed, ${stored[name]} is stored`)
  return words.length === 0 ? '' : `Nothing is saved yet: ${words.join('; ')}.`
}

/** Puts the controls of proposed values before all others. */
function leading(groups: readonly FormGroup[], proposed: readonly string[]) {
  if (proposed.length === 0) return { groups }
  const isFirst = ({ name }: FormControl) => proposed.includes(name)
  return {
    first: [{ title: '', folded: false, controls: groups.flatMap(({ controls }) => controls.filter(isFirst)) }],
    groups: groups.map((group) => ({ ...group, controls: group.controls.filter((each) => !isFirst(each)) })),
  }
}

function problemOf(errors: FieldErrors): string | undefined {
  const count = Object.keys(errors).length
  if (count === 0) return undefined
  return count === 1 ? 'Nothing was saved: one field is wrong.' : `Nothing was saved: ${count} fields are wrong.`
}

/** @throws MissingEntryError for a text that is the id of no row */
function toId(text: string): number {
  const id = /^\d{1,10}$/.test(text) ? Number(text) : 0
  if (id < 1 || id > MAX_ID) throw new MissingEntryError()
  return id
}

/** A route of the API: one description, which its checks, its guard, the OpenAPI document and the tests share. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static, TObject, TProperties, TSchema } from 'typebox'
import type { FieldErrors } from '../../ground/errors.js'
import type { Right } from '../sign-in/roles.js'

export const API_TAGS = {
  rules: 'Rules, which decide about requests.',
  overrides: 'Overrides of single clients, which take precedence over every rule.',
  history: 'Who changed which rule or override, and through which door.',
  exchange: 'All rules and overrides as one document.',
  events: 'The log of requests, and reports on it.',
  requests: 'Why a request is decided as it is, and the state of the limiter.',
} as const

/** What a request says, after its check. */
export interface ApiCall<Params = unknown, Query = unknown, Body = unknown> {
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly request: FastifyRequest
  /** The name of who sent it, for the history. */
  readonly actor: string
}

/** A documented answer. */
export interface ApiAnswer {
  readonly about: string
  /** Absent for an answer without a body. */
  readonly schema?: TSchema
  /** Whether it has an `ETag`. */
  readonly tagged?: true
  /** Whether it has a `Location`. */
  readonly located?: true
}

export interface ApiRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Relative to the mount, such as `/rules/{name}`. */
  readonly path: string
  /** The name of the operation in generated clients. */
  readonly id: string
  readonly tag: keyof typeof API_TAGS
  readonly summary: string
  readonly about?: string
  /** The least that a request takes, by its query. */
  needs(query: Readonly<Record<string, unknown>>): Right
  /** What it takes besides, by all that it says. */
  readonly alsoNeeds: ((call: ApiCall) => Right | undefined) | undefined
  readonly params: TObject | undefined
  readonly query: TObject | undefined
  readonly body: TSchema | undefined
  /** Whether the handler checks the fields of the body, which may be large: before it, any object will do. */
  readonly isLarge: boolean
  /** Returns better messages for an invalid body than its schema has. */
  readonly explain: ((body: unknown, params: unknown) => FieldErrors) | undefined
  readonly bodyLimit: number | undefined
  /** Whether it takes `If-Match`. */
  readonly locks: boolean
  readonly answers: Readonly<Record<number, ApiAnswer>>
  handle(call: ApiCall, reply: FastifyReply): Promise<unknown>
}

type Values<Properties extends TProperties> = Static<TObject<Properties>>

export interface RouteDescription<Params extends TProperties, Query extends TProperties, Body extends TSchema>
  extends Pick<ApiRoute, 'method' | 'path' | 'id' | 'tag' | 'summary' | 'about' | 'answers'>,
    Partial<Pick<ApiRoute, 'explain' | 'bodyLimit' | 'locks' | 'isLarge'>> {
  readonly needs: Right | ((query: Partial<Values<Query>>) => Right)
  readonly alsoNeeds?: (call: ApiCall<Values<Params>, Values<Query>, Static<Body>>) => Right | undefined
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  handle(call: ApiCall<Values<Params>, Values<Query>, Static<Body>>, reply: FastifyReply): Promise<unknown>
}

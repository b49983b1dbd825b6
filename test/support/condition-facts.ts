import type { Geo } from '../../src/clients/geo.js'
import type { NamedLists } from '../../src/clients/named-lists.js'
import { ConditionFacts } from '../../src/rules/conditions/condition-facts.js'

export interface GivenFacts {
  readonly method?: string
  readonly path?: string
  readonly route?: string
  readonly host?: string
  readonly ip?: string
  readonly user?: object | null
  readonly headers?: Readonly<Record<string, string>>
  readonly geo?: Pick<Geo, 'country' | 'operator'>
  readonly query?: Readonly<Record<string, string>>
  readonly lists?: Pick<NamedLists, 'includes'>
}

/** The facts that a condition sees of a request that a test makes up. */
export class TestFacts extends ConditionFacts {
  readonly #given: GivenFacts

  constructor(facts: GivenFacts = {}) {
    super({ work: 0 })
    this.#given = facts
  }

  get method(): string {
    return this.#given.method ?? 'GET'
  }

  get path(): string {
    return this.#given.path ?? '/'
  }

  get route(): string {
    return this.#given.route ?? '404'
  }

  get host(): string {
    return this.#given.host ?? 'localhost'
  }

  get ip(): string {
    return this.#given.ip ?? '203.0.113.7'
  }

  get user(): object | null {
    return this.#given.user ?? null
  }

  isListed(list: string, address: string): boolean {
    return this.#given.lists?.includes(list, address) ?? false
  }

  get geo(): Pick<Geo, 'country' | 'operator'> {
    return this.#given.geo ?? { country: () => '', operator: () => ({ asn: 0n, name: '' }) }
  }

  header(name: string): string | undefined {
    return ownText(this.#given.headers, name)
  }

  parameter(name: string): string | undefined {
    return ownText(this.#given.query, name)
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#given.headers ?? {})
  }

  parameterNames(): readonly string[] {
    return Object.keys(this.#given.query ?? {})
  }
}

function ownText(texts: Readonly<Record<string, string>> = {}, name: string): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined
}

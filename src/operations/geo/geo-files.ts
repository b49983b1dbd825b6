/** The files about addresses of an app: they are read at start, and again when they are replaced. */
import type { Geo, GeoFileKind, GeoFileState, GeoOptions, Operator } from '../../clients/geo.js'
import type { Component } from '../../ground/components.js'
import type { OutageLog } from '../../ground/outage-log.js'
import { visible } from '../../ground/visible.js'
import { GeoFile, importMaxmind } from './geo-file.js'

/** The interval between two inspections of the files, in milliseconds. */
const INSPECTION_MS = 5_000

const NO_OPERATOR: Operator = { asn: 0n, name: '' }

/** @throws InvalidSettingError for a file that cannot be read, and without the package that reads it */
export async function openGeoFiles(
  { country, asn }: GeoOptions,
  log: Pick<OutageLog, 'error' | 'info'>,
): Promise<GeoFiles> {
  const maxmind = await importMaxmind()
  return new GeoFiles(
    country === undefined
      ? undefined
      : await GeoFile.open({ kind: 'country', path: country, maxmind, log, parse: parseCountry }),
    asn === undefined ? undefined : await GeoFile.open({ kind: 'asn', path: asn, maxmind, log, parse: parseOperator }),
  )
}

export class GeoFiles implements Geo, Component {
  readonly #country: GeoFile<string> | undefined
  readonly #asn: GeoFile<Operator> | undefined
  #timer: NodeJS.Timeout | undefined
  #underWay: Promise<void> | undefined

  constructor(country: GeoFile<string> | undefined, asn: GeoFile<Operator> | undefined) {
    this.#country = country
    this.#asn = asn
  }

  has(kind: GeoFileKind): boolean {
    return (kind === 'country' ? this.#country : this.#asn) !== undefined
  }

  country(ip: string): string {
    return this.#country?.find(ip) ?? ''
  }

  operator(ip: string): Operator {
    return this.#asn?.find(ip) ?? NO_OPERATOR
  }

  files(): readonly GeoFileState[] {
    return this.#all.map(({ state }) => state)
  }

  start(): void {
    this.#timer = setInterval(() => void this.inspect(), INSPECTION_MS).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#underWay
  }

  /** Reads the files again that were replaced. Calls that come meanwhile share it. */
  inspect(): Promise<void> {
    this.#underWay ??= this.#inspectAll().finally(() => {
      this.#underWay = undefined
    })
    return this.#underWay
  }

  async #inspectAll(): Promise<void> {
    for (const file of this.#all) await file.inspect()
  }

  get #all() {
    return [this.#country, this.#asn].filter((file) => file !== undefined)
  }
}

function parseCountry(record: unknown): string {
  const code = field(field(record, 'country'), 'iso_code')
  return typeof code === 'string' ? visible(code) : ''
}

function parseOperator(record: unknown): Operator {
  const asn = field(record, 'autonomous_system_number')
  const name = field(record, 'autonomous_system_organization')
  if (typeof asn !== 'number' || !Number.isSafeInteger(asn)) return NO_OPERATOR
  return { asn: BigInt(asn), name: typeof name === 'string' ? visible(name) : '' }
}

function field(record: unknown, name: string): unknown {
  return typeof record === 'object' && record !== null ? Reflect.get(record, name) : undefined
}

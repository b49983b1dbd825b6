/** A file that knows something of addresses, in the format of MaxMind. It is read whole, and replaced whole. */
import { readFile } from 'node:fs/promises'
import type { GeoFileKind, GeoFileState } from '../../clients/geo.js'
import { errorCode, errorLine, InvalidSettingError, unloadablePeer } from '../../ground/errors.js'
import { readFileState } from '../../ground/file-state.js'
import type { OutageLog } from '../../ground/outage-log.js'
import { rememberClients } from '../../ground/remember.js'
import { shown } from '../../ground/setting.js'
import { isoDay } from '../../ground/time/iso-time.js'
import { visible } from '../../ground/visible.js'
import { forEachRecord, type TreeMetadata } from './geo-records.js'

/** What stands between the tree of a file and its records: 16 bytes of zeros. */
const SEPARATOR_LENGTH = 16
/** The most records of a file that are kept as objects: a file of countries has some 250. */
const MAX_RECORDS = 10_000

type Maxmind = typeof import('maxmind')

/** @throws InvalidSettingError when the package is not installed */
export async function importMaxmind(): Promise<Maxmind> {
  return import('maxmind').catch((error: unknown) => {
    throw unloadablePeer({ user: 'Setting "geo"', name: 'maxmind', since: '5.0.0' }, error)
  })
}

export interface GeoFileOptions<Known> {
  readonly kind: GeoFileKind
  readonly path: string
  readonly maxmind: Maxmind
  readonly log: Pick<OutageLog, 'error' | 'info'>
  /** Returns what a record of the file says; of null for an address without one. */
  readonly parse: (record: unknown) => Known
}

/** The contents of a file. */
interface Contents<Known> {
  readonly type: string
  readonly builtAtMs: number
  readonly find: (ip: string) => Known
}

export class GeoFile<Known> {
  readonly #options: GeoFileOptions<Known>
  #contents: Contents<Known>
  /** The identity of the file that was read last, whatever came of it. */
  #identity: string
  /** Why the file that is there cannot be used. It is told of when two inspections have found it. */
  #problem: string | undefined
  #isReported = false

  /** @throws InvalidSettingError for a file that cannot be read */
  static async open<Known>(options: GeoFileOptions<Known>): Promise<GeoFile<Known>> {
    const { kind, path } = options
    try {
      return new GeoFile(options, await identify(path), await read(options))
    } catch (error) {
      throw new InvalidSettingError(
        `Setting "geo.${kind}" is ${shown(path)}, which cannot be read: ${errorLine(error)}. Give the path of a file in the format of MaxMind DB (.mmdb), such as './${kind}.mmdb'`,
        { cause: error },
      )
    }
  }

  private constructor(options: GeoFileOptions<Known>, identity: string, contents: Contents<Known>) {
    this.#options = options
    this.#identity = identity
    this.#contents = contents
  }

  get state(): GeoFileState {
    const { type, builtAtMs } = this.#contents
    return { kind: this.#options.kind, type, builtAtMs, problem: this.#isReported ? this.#problem : undefined }
  }

  find(ip: string): Known {
    return this.#contents.find(ip)
  }

  /** Reads the file again where it was replaced. The last good one stays where it cannot be used. Never rejects. */
  async inspect(): Promise<void> {
    const { kind, path, log } = this.#options
    const identity = await identify(path).catch((error: unknown) => errorLine(error))
    if (identity === this.#identity) {
      this.#report()
      return
    }
    this.#identity = identity
    try {
      this.#contents = await read(this.#options)
      if (this.#isReported) log.info({ file: path }, `Rate limits can read the file of "geo.${kind}" again`)
      this.#problem = undefined
      this.#isReported = false
    } catch (error) {
      const isUnreadable = errorCode(error) !== undefined
      if (isUnreadable) {
        // It may become readable without a change, as by its permissions.
        this.#identity = ''
        this.#report()
      }
      this.#problem = errorLine(error)
    }
  }

  /** Tells of a problem that has stayed: one that has not is that of a file which was being written. */
  #report(): void {
    if (this.#problem === undefined || this.#isReported) return
    this.#isReported = true
    const { kind, path, log } = this.#options
    log.error(
      { file: path, reason: this.#problem },
      `Rate limits cannot read the file of "geo.${kind}": that of ${isoDay(this.#contents.builtAtMs)} stays`,
    )
  }
}

async function identify(path: string): Promise<string> {
  return (await readFileState(path)).identity
}

/** @throws Error for a file that is no such file, not all of one, damaged, or of another kind */
async function read<Known>({ kind, path, maxmind, parse }: GeoFileOptions<Known>): Promise<Contents<Known>> {
  const before = await identify(path)
  const bytes = await readFile(path)
  if (bytes.length === 0) throw new Error('it is empty')
  const records = new Map<number | string, unknown>()
  const reader = open(maxmind, bytes, {
    get: (key) => records.get(key),
    set(key, record) {
      if (records.size >= MAX_RECORDS) records.clear()
      records.set(key, record)
    },
  })
  const { searchTreeSize, databaseType, buildEpoch, ipVersion } = reader.metadata
  const separator = bytes.subarray(searchTreeSize, searchTreeSize + SEPARATOR_LENGTH)
  const isWhole = searchTreeSize > 0 && separator.length === SEPARATOR_LENGTH && separator.every((byte) => byte === 0)
  if (!isWhole || Number.isNaN(buildEpoch.getTime()))
    throw new Error('it is not a whole file in the format of MaxMind DB')

  function lookUp(ip: string): Known {
    // A file of IPv4 alone knows no other addresses.
    if (ip === '' || (ipVersion === 4 && ip.includes(':'))) return parse(null)
    return parse(reader.get(ip))
  }
  if (!(await hasKnown(bytes, reader.metadata, lookUp, parse(null))))
    throw new Error(`none of its records has what "geo.${kind}" is for: it says that it is ${shown(databaseType)}`)
  if ((await identify(path)) !== before) throw new Error('it is being written')
  return { type: visible(String(databaseType)), builtAtMs: buildEpoch.getTime(), find: rememberClients(lookUp) }
}

/**
 * Looks each record of a file up, so that no look-up of a request is the first to meet a damaged one.
 *
 * @param unknown what a look-up returns for an address without a record
 * @returns whether a record says more than that
 * @throws Error for a record that cannot be read
 */
async function hasKnown<Known>(
  file: Buffer,
  metadata: TreeMetadata,
  lookUp: (ip: string) => Known,
  unknown: Known,
): Promise<boolean> {
  let isFound = false
  try {
    await forEachRecord(file, metadata, (ip) => {
      isFound = lookUp(ip) !== unknown || isFound
    })
  } catch (error) {
    throw new Error(`it is damaged: ${errorLine(error)}`, { cause: error })
  }
  return isFound
}

interface RecordCache {
  get(key: number | string): unknown
  set(key: number | string, record: unknown): void
}

/** @throws Error for bytes that are no such file */
function open({ Reader }: Maxmind, bytes: Buffer, cache: RecordCache) {
  try {
    return new Reader(bytes, { cache })
  } catch (error) {
    throw new Error('it is not a whole file in the format of MaxMind DB', { cause: error })
  }
}

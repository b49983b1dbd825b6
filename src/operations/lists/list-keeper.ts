import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { type AddressList, listOf, parseAddressLines, requireListSize } from '../../clients/address-list.js'
import type { NamedLists } from '../../clients/named-lists.js'
import type { Database } from '../../database/database.js'
import type { Component } from '../../ground/components.js'
import { errorMessage, InvalidSettingError } from '../../ground/errors.js'
import { readFileState } from '../../ground/file-state.js'
import type { OutageLog } from '../../ground/outage-log.js'
import { type Clock, latestStartMs, MINUTE_MS, SECOND_MS } from '../../ground/time/clock.js'
import { JobLeases } from '../schedule/job-leases.js'
import { fetchList } from './fetch-list.js'
import type { ListSource } from './list-settings.js'
import { ListTable, listSource, type StoredList } from './list-table.js'

/** The interval between two looks at files, in milliseconds. One that changed is read when it has been left alone for so long. */
const INTERVAL_MS = SECOND_MS
/** The longest interval between two looks at the table of lists that other processes fetch, in milliseconds. */
const TABLE_INTERVAL_MS = 10 * SECOND_MS
/** The longest time after which a fetch that failed is repeated, in milliseconds. */
const RETRY_MS = MINUTE_MS
/** The longest wait for URLs at start, in milliseconds. */
const WARM_UP_MS = 3 * SECOND_MS

export interface ListKeeperOptions {
  readonly sources: readonly ListSource[]
  readonly named: NamedLists
  /** The time after which a URL is fetched again, in milliseconds. */
  readonly refreshMs: number
  readonly blockPrivateNetworks: boolean
  readonly database: Database
  readonly clock: Clock
  readonly log: Pick<OutageLog, 'error' | 'warn' | 'info'>
}

type FileSource = Extract<ListSource, { kind: 'file' }>
type UrlSource = Extract<ListSource, { kind: 'url' }>

/** What keeps one list up to date. */
interface Watched {
  readonly name: string
  /** Reads the list where it has changed. */
  look(nowMs: number): Promise<void>
  /** Whether the list was read once, in this process or an earlier one. */
  wasRead: boolean
  /** Why the last attempt failed; undefined where it did not. */
  failure: string | undefined
}

/**
 * Keeps the named lists up to date: files are read when they change, and of all processes with one database one fetches
 * a URL. A list that cannot be read leaves the last good one in force.
 */
export class ListKeeper implements Component {
  readonly #options: ListKeeperOptions
  readonly #watched: Watched[] = []
  /** The looks that have not ended. */
  readonly #looking = new Map<Watched, Promise<void>>()
  /** The end of the last parse: lists are parsed one after another, so that their slices do not add up. */
  #parsed: Promise<unknown> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  /** Ends fetches at closing: a slow server holds up no restart. */
  readonly #closing = new AbortController()

  constructor(options: ListKeeperOptions) {
    this.#options = options
  }

  /** @throws InvalidSettingError for a file that cannot be read */
  async prepare(): Promise<void> {
    const { sources, named } = this.#options
    for (const source of sources) {
      if (source.kind === 'code') named.replace(source.name, await listOf(source.networks))
      else if (source.kind === 'file') await this.#watchFile(source)
      else this.#watchUrl(source)
    }
  }

  async start(): Promise<void> {
    if (this.#watched.length === 0) return
    await Promise.race([this.look(), delay(WARM_UP_MS, undefined, { ref: false })])
    if (!this.#isClosed) this.#timer = setInterval(() => void this.look(), INTERVAL_MS).unref()
  }

  /** Reads what has changed. Never rejects. A list that is being read keeps no other waiting, and is not read twice. */
  async look(): Promise<void> {
    await Promise.all(this.#watched.map((watched) => this.#lookAt(watched)))
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#closing.abort()
    await Promise.all(this.#looking.values())
  }

  /** Returns what is wrong with lists, for health. */
  problems(): string[] {
    return this.#watched.flatMap(({ name, wasRead, failure }) => {
      if (wasRead) return failure === undefined ? [] : [`${name}: the last good list stays (${failure})`]
      return [`${name} was never read, and is empty${failure === undefined ? '' : ` (${failure})`}`]
    })
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  #lookAt(watched: Watched): Promise<void> {
    const underWay = this.#looking.get(watched)
    if (underWay !== undefined || this.#isClosed) return underWay ?? Promise.resolve()
    const look = async () => watched.look(this.#options.clock.now())
    const looking = look()
      .catch((error: unknown) => this.#failed(watched, error))
      .finally(() => this.#looking.delete(watched))
    this.#looking.set(watched, looking)
    return looking
  }

  #parse(text: Uint8Array): Promise<AddressList> {
    const parsing = this.#parsed.then(() => parseAddressLines(text))
    this.#parsed = parsing.catch(() => undefined)
    return parsing
  }

  #failed(watched: Watched, error: unknown): void {
    if (this.#isClosed) return
    const reason = errorMessage(error)
    const isLogged = watched.failure !== undefined
    watched.failure = reason
    // Health has the reason of now: error pages and networks give another one each time.
    if (isLogged) return
    const consequence = watched.wasRead ? 'the last good one stays in force' : 'it is empty until it can be read'
    this.#options.log.error({ list: watched.name, reason }, `Rate limit list cannot be read: ${consequence}`)
  }

  #succeeded(watched: Watched): void {
    if (watched.failure !== undefined) {
      this.#options.log.info({ list: watched.name }, 'Rate limit list can be read again')
    }
    watched.failure = undefined
  }

  #replace(watched: Watched, list: AddressList): void {
    this.#options.named.replace(watched.name, list)
    watched.wasRead = true
  }

  async #watchFile({ name, path }: FileSource): Promise<void> {
    let loaded = ''
    let seen = ''
    const watched: Watched = {
      name,
      wasRead: false,
      failure: undefined,
      look: async () => {
        const found = await identify(path).catch((error: unknown) => {
          // What comes back is read, whatever it is.
          loaded = ''
          throw error
        })
        const isSettled = found === seen
        seen = found
        // A file that is being written is left alone.
        if (found === loaded || !isSettled) return
        const text = await readFile(path)
        // What could be read is not read again until it changes; a file without permission may get it unchanged.
        loaded = found
        this.#replace(watched, await this.#parse(text))
        this.#succeeded(watched)
      },
    }
    try {
      loaded = await identify(path)
      this.#replace(watched, await this.#parse(await readFile(path)))
    } catch (error) {
      throw new InvalidSettingError(
        `Setting "lists.${name}" is ${JSON.stringify(path)}, a file that cannot be read: ${errorMessage(error)}`,
      )
    }
    this.#watched.push(watched)
  }

  #watchUrl({ name, url }: UrlSource): void {
    const { database, clock, refreshMs, blockPrivateNetworks, log } = this.#options
    const table = new ListTable(database)
    const leases = new JobLeases(database)
    const source = listSource(url)
    // Lists of one URL share a job, whatever they are called: each write removes the texts of other ones.
    const job = `list:${source.slice(0, 16)}`
    const retryMs = Math.min(refreshMs, RETRY_MS)
    /** The stored version that is in force, and what is known of it. */
    let current: Pick<StoredList, 'version' | 'etag' | 'lastModified'> | undefined
    let checkedMs = Number.NEGATIVE_INFINITY
    let triedMs = Number.NEGATIVE_INFINITY
    let failedMs = Number.NEGATIVE_INFINITY
    let lookAtMs = Number.NEGATIVE_INFINITY

    const isDue = (nowMs: number) => nowMs - checkedMs >= refreshMs || checkedMs > latestStartMs(nowMs)

    /** Reads what other processes have fetched; returns whether the database answered. */
    const readStored = async (): Promise<boolean> => {
      try {
        const stored = await table.find(source)
        if (stored === undefined) {
          // A list that came while the database was away is fetched once more, whole, for those who read it there.
          if (current !== undefined) checkedMs = Number.NEGATIVE_INFINITY
          current = undefined
          return true
        }
        if (stored.version !== current?.version) {
          const text = await table.read(stored)
          if (text === undefined) {
            // Another one has replaced it meanwhile; one that stays without its text is fetched anew.
            current = undefined
            return true
          }
          this.#replace(watched, await this.#parse(text))
          current = stored
        }
        checkedMs = stored.checkedMs
        if (checkedMs >= failedMs) this.#succeeded(watched)
        return true
      } catch (error) {
        log.warn({ err: error, list: name }, 'Rate limit lists cannot be read from the database')
        return false
      }
    }

    const fetchOnce = async (hasDatabase: boolean, nowMs: number): Promise<void> => {
      const fetched = await fetchList(url, current, blockPrivateNetworks, this.#closing.signal)
      if (fetched === null) {
        if (hasDatabase) await table.checked(source, nowMs)
      } else {
        const list = await this.#parse(fetched.text)
        // Without a database the version is this process's own, which the table does not have.
        const version = hasDatabase ? await table.write(source, fetched, nowMs) : ''
        this.#replace(watched, list)
        current = { version, etag: fetched.etag, lastModified: fetched.lastModified }
      }
      checkedMs = nowMs
      this.#succeeded(watched)
    }

    const fetchAsOne = async (hasDatabase: boolean, nowMs: number): Promise<void> => {
      const holder = hasDatabase ? await leases.take(job, Math.floor(nowMs / retryMs) * retryMs, nowMs) : ''
      if (holder === undefined) return
      triedMs = nowMs
      let failure: string | null = null
      try {
        await fetchOnce(hasDatabase, nowMs)
      } catch (error) {
        // A fetch that closing ends is no failure, of which health would tell.
        failure = this.#isClosed ? null : errorMessage(error)
        failedMs = nowMs
        throw error
      } finally {
        if (hasDatabase) await leases.finish(job, holder, clock.now(), failure).catch(() => undefined)
      }
    }

    const watched: Watched = {
      name,
      wasRead: false,
      failure: undefined,
      look: async (nowMs) => {
        // A list that was never read is looked for every time.
        if (watched.wasRead && nowMs < lookAtMs && lookAtMs - nowMs <= TABLE_INTERVAL_MS) return
        lookAtMs = nowMs + Math.min(refreshMs, TABLE_INTERVAL_MS)
        const hasDatabase = await readStored()
        if (!isDue(nowMs) || Math.abs(nowMs - triedMs) < retryMs) return
        await fetchAsOne(hasDatabase, nowMs)
      },
    }
    this.#watched.push(watched)
  }
}

/** @throws Error for what is no file, or larger than a list may be */
async function identify(path: string): Promise<string> {
  const { identity, isFile, bytes } = await readFileState(path)
  if (!isFile) throw new Error('it is no file')
  requireListSize(bytes)
  return identity
}

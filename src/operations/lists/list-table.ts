import { createHash, randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { MAX_LIST_BYTES } from '../../clients/address-list.js'
import type { Database } from '../../database/database.js'
import type { FetchedList, ListVersion } from './fetch-list.js'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

/** The bytes of a part, which are 262,144 characters: SQLite reads them, and they are decoded, within a millisecond. */
const PART_BYTES = 196_608

/** The stored state of a list, without its text. */
export interface StoredList extends ListVersion {
  readonly source: string
  /** Names the text: another text has another one. */
  readonly version: string
  readonly parts: number
  /** When the URL last answered, in milliseconds since the epoch. */
  readonly checkedMs: number
}

/** Returns the name of a URL in the table, which has no tokens. */
export function listSource(url: URL): string {
  return createHash('sha256').update(url.href).digest('hex')
}

/** The last good list of each URL, in the database, so that one of many processes fetches it, and a restart has it. */
export class ListTable {
  readonly #database: Database
  readonly #lists: string
  readonly #parts: string

  constructor(database: Database) {
    this.#database = database
    this.#lists = database.dialect.table('rate_limit_list')
    this.#parts = database.dialect.table('rate_limit_list_part')
  }

  /** Returns the state of a list; undefined where its URL never had one. */
  async find(source: string): Promise<StoredList | undefined> {
    const [found] = await this.#database.query<StoredList>(
      `SELECT source, version, parts, etag, last_modified AS "lastModified", checked_at AS "checkedMs"
       FROM ${this.#lists} WHERE source = $1`,
      [source],
    )
    return found
  }

  /** Reads the text of a list; undefined where another one has replaced it meanwhile. */
  async read({ version, parts }: StoredList): Promise<Buffer | undefined> {
    const compressed: Buffer[] = []
    for (let part = 0; part < parts; part++) {
      const [row] = await this.#database.query<{ text: string }>(
        `SELECT text FROM ${this.#parts} WHERE version = $1 AND part = $2`,
        [version, part],
      )
      if (row === undefined) return undefined
      compressed.push(Buffer.from(row.text, 'base64'))
    }
    return decompress(Buffer.concat(compressed), { maxOutputLength: MAX_LIST_BYTES })
  }

  /**
   * Stores a list. The parts come first, so that no reader finds a list without them.
   *
   * @returns the version
   */
  async write(source: string, { text, etag, lastModified }: FetchedList, nowMs: number): Promise<string> {
    const { fromMs } = this.#database.dialect
    const version = randomUUID()
    const whole = await compress(text)
    let parts = 0
    for (let start = 0; start < whole.length; start += PART_BYTES) {
      await this.#database.execute(`INSERT INTO ${this.#parts} (version, part, source, text) VALUES ($1, $2, $3, $4)`, [
        version,
        parts++,
        source,
        whole.toString('base64', start, start + PART_BYTES),
      ])
    }
    await this.#database.execute(
      `INSERT INTO ${this.#lists} (source, version, parts, etag, last_modified, checked_at)
       VALUES ($1, $2, $3, $4, $5, ${fromMs('$6')})
       ON CONFLICT (source) DO UPDATE SET version = excluded.version, parts = excluded.parts, etag = excluded.etag,
         last_modified = excluded.last_modified, checked_at = excluded.checked_at`,
      [source, version, parts, etag, lastModified, nowMs],
    )
    // Others that read the one before read again.
    await this.#database.execute(`DELETE FROM ${this.#parts} WHERE source = $1 AND version <> $2`, [source, version])
    return version
  }

  /** Notes that a list has not changed. */
  async checked(source: string, nowMs: number): Promise<void> {
    const { fromMs } = this.#database.dialect
    await this.#database.execute(`UPDATE ${this.#lists} SET checked_at = ${fromMs('$2')} WHERE source = $1`, [
      source,
      nowMs,
    ])
  }
}

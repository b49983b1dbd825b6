import { type BigIntStats, statSync } from 'node:fs'
import { basename } from 'node:path'

/** The interval between two inspections of the path while statements run, in milliseconds. */
const INSPECTION_MS = 1_000
/** A file that changed so lately may still be copied: it is used when it has been left alone for so long. */
const SETTLED_MS = 1_000
/** The text stands for an identity, which the file system may use again for another file when the old one is closed. */
const REPLACED = ''

/** Notices that the path of an open SQLite file leads to another one, or to none. */
export class FileWatch {
  readonly #path: string
  /** The identities of the file that is open and of its write-ahead log; undefined before the first one. */
  #file: string | undefined
  #log: string | undefined
  #inspectAtMs = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Returns true, once, when another file is at the path of the open one, which then has to be closed.
   *
   * @throws while no file is there, or none that can be used yet
   */
  isReplaced(): boolean {
    const nowMs = performance.now()
    if (!this.#file || nowMs < this.#inspectAtMs) return false
    const found = readStats(this.#path)
    if (found && found.size > 0n && toIdentity(found) === this.#file) {
      this.#inspectAtMs = nowMs + INSPECTION_MS
      this.#log = this.#readLog()
      return false
    }
    this.#inspectAtMs = nowMs
    this.#requireWhole(found)
    // SQLite would take it for the log of the new file.
    if (this.#log !== undefined && this.#readLog() === this.#log) {
      const name = basename(this.#path)
      throw new Error(`${this.#path} was replaced beside the log of the old file: remove ${name}-wal and ${name}-shm`)
    }
    this.#file = REPLACED
    return true
  }

  /**
   * Makes sure that no empty file is made where there was one with data.
   *
   * @throws while no file is there, or none that can be used yet, in place of the one that was replaced
   */
  requireFile(): void {
    if (this.#file === REPLACED) this.#requireWhole(readStats(this.#path))
  }

  /** Notes the file that is there as the one that is open; returns whether it has replaced another one. */
  opened(): boolean {
    const wasReplaced = this.#file === REPLACED
    const found = readStats(this.#path)
    this.#file = found && toIdentity(found)
    this.#log = undefined
    return wasReplaced
  }

  #requireWhole(found: BigIntStats | undefined): void {
    if (found === undefined || found.size === 0n) {
      const what = found === undefined ? 'is gone' : 'is empty'
      throw new Error(`${this.#path} ${what}: move a database there, or restart the servers, which make a new one`)
    }
    if (Math.abs(Date.now() - Number(found.mtimeMs)) < SETTLED_MS) throw new Error(`${this.#path} is being replaced`)
  }

  #readLog(): string | undefined {
    const found = readStats(`${this.#path}-wal`)
    return found && toIdentity(found)
  }
}

function readStats(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true })
  } catch {
    return undefined
  }
}

function toIdentity({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`
}

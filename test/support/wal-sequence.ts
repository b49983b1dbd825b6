import { readFileSync } from 'node:fs'

/** The offset at which the header of a write-ahead log counts how often it began anew. */
const SEQUENCE_OFFSET = 12

/** Returns how often the write-ahead log of a SQLite file began anew. */
export function walSequence(path: string): number {
  return readFileSync(`${path}-wal`).readUInt32BE(SEQUENCE_OFFSET)
}

import { stat } from 'node:fs/promises'

export interface FileState {
  /** A text that changes with the file, also where another one replaces it. */
  readonly identity: string
  readonly isFile: boolean
  readonly bytes: number
}

/** @throws the error of the file system where there is no file, or none that may be looked at */
export async function readFileState(path: string): Promise<FileState> {
  const found = await stat(path, { bigint: true })
  const { dev, ino, size, mtimeNs } = found
  return { identity: [dev, ino, size, mtimeNs].join(':'), isFile: found.isFile(), bytes: Number(size) }
}

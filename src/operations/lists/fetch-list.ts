/** Fetches the text of a list. */

import type { IncomingMessage } from 'node:http'
import { MAX_LIST_BYTES, requireListSize } from '../../clients/address-list.js'
import { SECOND_MS } from '../../ground/time/clock.js'
import { sendRequest, whyFailed, wrongStatus } from '../outgoing/send-request.js'

/** The longest time until a list has arrived, in milliseconds: 32 MB at 10 Mbit/s. */
const TIMEOUT_MS = 30 * SECOND_MS

/** What a server said of the version of a list that it sent. */
export interface ListVersion {
  readonly etag: string | null
  readonly lastModified: string | null
}

export interface FetchedList extends ListVersion {
  readonly text: Buffer
}

/**
 * Fetches a list.
 *
 * @param known the version that is known; undefined where none is
 * @returns null where the list has not changed since
 * @param signal ends it early
 * @throws Error that says why there is none; it does not have the URL, which may have a token
 */
export async function fetchList(
  url: URL,
  known: ListVersion | undefined,
  blockPrivateNetworks: boolean,
  signal: AbortSignal,
): Promise<FetchedList | null> {
  const headers = {
    accept: 'text/plain, */*;q=0.1',
    ...(known?.etag ? { 'if-none-match': known.etag } : {}),
    ...(known?.lastModified ? { 'if-modified-since': known.lastModified } : {}),
  }
  const answer = await sendRequest(
    url,
    { method: 'GET', headers, blockPrivateNetworks, timeoutMs: TIMEOUT_MS, signal },
    readAnswer,
  )
  if (answer !== null && 'failure' in answer) throw new Error(whyFailed(answer, TIMEOUT_MS))
  if (answer === null && known === undefined) throw new Error(wrongStatus(304))
  return answer
}

async function readAnswer(response: IncomingMessage): Promise<FetchedList | null> {
  const { statusCode = 0, headers } = response
  if (statusCode === 304) return null
  if (statusCode !== 200) throw new Error(wrongStatus(statusCode))
  if (Number(headers['content-length'] ?? 0) > MAX_LIST_BYTES) requireListSize(Number(headers['content-length']))
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response) {
    size += chunk.length
    requireListSize(size)
    chunks.push(chunk)
  }
  return { text: Buffer.concat(chunks), etag: headers.etag ?? null, lastModified: headers['last-modified'] ?? null }
}

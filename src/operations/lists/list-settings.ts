/** The settings of named lists. */

import { LIST_NAME, LIST_NAME_ALLOWED } from '../../clients/named-lists.js'
import { type ParsedNetwork, parseNetwork } from '../../clients/network.js'
import { errorMessage, InvalidSettingError } from '../../ground/errors.js'
import { readableUrl } from '../../ground/readable-url.js'

/** Lists of addresses and networks by name: the entries, the path of a file, or an `https://` URL. */
export type ListsOptions = Readonly<Record<string, readonly string[] | string>>

/** Where a list comes from. */
export type ListSource = { readonly name: string } & (
  | { readonly kind: 'code'; readonly networks: readonly ParsedNetwork[] }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'url'; readonly url: URL }
)

/** @throws InvalidSettingError for a wrong name, source or entry */
export function parseLists(lists: ListsOptions, called: string): ListSource[] {
  return Object.entries(lists).map(([name, source]): ListSource => {
    if (!LIST_NAME.test(name)) {
      throw new InvalidSettingError(
        `Setting "${called}" has the name ${JSON.stringify(name)}: give ${LIST_NAME_ALLOWED}`,
      )
    }
    const setting = `${called}.${name}`
    if (typeof source === 'string') return parseSource(name, source, setting)
    if (Array.isArray(source))
      return { name, kind: 'code', networks: source.map((entry) => parseEntry(entry, setting)) }
    throw new InvalidSettingError(
      `Setting "${setting}" is ${typeof source}: give a list of addresses and networks, the path of a file, or an https:// URL`,
    )
  })
}

function parseEntry(entry: unknown, setting: string): ParsedNetwork {
  try {
    return parseNetwork(String(entry))
  } catch (error) {
    throw new InvalidSettingError(`Setting "${setting}" has a wrong entry: ${errorMessage(error)}`)
  }
}

function parseSource(name: string, source: string, setting: string): ListSource {
  if (!/^[a-z][a-z0-9+.-]+:\/\//i.test(source)) {
    if (source.trim() === '') throw new InvalidSettingError(`Setting "${setting}" is empty: give the path of a file`)
    return { name, kind: 'file', path: source }
  }
  const url = readableUrl(source)
  // The URL may have a token, which no message repeats.
  if (url?.protocol !== 'https:') {
    throw new InvalidSettingError(`Setting "${setting}" is no URL that lists are read from: give one with https://`)
  }
  return { name, kind: 'url', url }
}

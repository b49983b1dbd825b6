/**
 * Returns a URL whose name and password can be decoded; undefined for other texts, such as a stray percent sign. So it is
 * for one with a name and an @ behind its host: a # / or ? in the password ended it, and the "host" is a part of it.
 */
export function readableUrl(text: string): URL | undefined {
  try {
    const url = new URL(text)
    const credentials = decodeURIComponent(url.username + url.password)
    return credentials !== '' && behindHost(url).includes('@') ? undefined : url
  } catch {
    return undefined
  }
}

/** Returns the readable URL of a server: without a fragment, and without any @ behind its host. */
export function serverUrl(text: string): URL | undefined {
  const url = readableUrl(text)
  return url === undefined || /[#@]/.test(behindHost(url)) ? undefined : url
}

function behindHost({ pathname, search, hash }: URL): string {
  return pathname + search + hash
}

/** Quotes a text that is not understood, and may have a password anywhere: no more than the scheme of a URL. */
export function quotedScheme(text: string): string {
  const [scheme] = /^[a-z][a-z0-9+]{0,20}:\/\//i.exec(text) ?? []
  return scheme === undefined ? 'not as it has to be' : `"${scheme}…"`
}

/** A URL whose name and password can be decoded; undefined for any other text, such as one with a stray percent sign. */
export function readableUrl(text: string): URL | undefined {
  try {
    const url = new URL(text)
    decodeURIComponent(url.username + url.password)
    return url
  } catch {
    return undefined
  }
}

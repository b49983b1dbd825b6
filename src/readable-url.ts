/** Returns a URL whose name and password can be decoded; undefined for other texts, such as a stray percent sign. */
export function readableUrl(text: string): URL | undefined {
  try {
    const url = new URL(text)
    decodeURIComponent(url.username + url.password)
    return url
  } catch {
    return undefined
  }
}

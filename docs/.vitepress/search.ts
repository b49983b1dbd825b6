/**
 * How the site's search understands words. VitePress writes the source of these functions into the site, so each has all
 * that it needs within itself.
 */

/** Returns the words that a word of a query stands for: none where it says nothing, else itself and its synonyms. */
export function expandWord(word: string): string[] | null {
  const ignored =
    'a an and any are as at be by can do does for from get has have how i if in is it its me my of on or our'
  const alsoIgnored =
    'set should so that the their them then there this to use was we what when where which who with you your'
  const synonyms = [
    'block ban deny denied blacklist denylist blocklist',
    'allow exempt whitelist allowlist bypass unblock',
    'limit throttle throttling quota',
    'quota usage allowance',
    'refuse refused reject rejected refusal 429',
    'ip address',
    'client visitor caller consumer',
    'cost weight points',
    'challenge captcha recaptcha turnstile hcaptcha',
    'shared nat cgnat vpn office',
    'login signin password credential brute',
    'staff sso oidc oauth saml',
    'erase delete gdpr forget purge prune',
    'webhook slack teams discord pagerduty',
    'alert notify notification',
    'email mail smtp',
    'proxy cdn cloudflare forwarded trustproxy',
    'why explain reason',
    'preview dry simulate shadow',
    'redis valkey',
    'postgresql postgres pg',
    'concurrency concurrent parallel simultaneous',
    'settings setting options option configuration configure config environment env variable',
    'install installation setup',
    'kubernetes k8s pods',
    'metrics prometheus grafana opentelemetry otel monitoring',
    'socket sockets websocket websockets ws',
    'queue queues worker workers bullmq',
    'burst spike',
    'log logs events audit',
    'rule rules policy',
  ]
  const lower = word.toLowerCase()
  if (`${ignored} ${alsoIgnored}`.split(' ').includes(lower)) return null
  // Words of the index are found by their beginnings, so that the singular finds the plural.
  const stem = lower.length > 3 ? lower.replace(/(?:(?<=[^s])s|ing|ed)$/, '') : lower
  const groups = synonyms
    .map((line) => line.split(' '))
    .filter((words) => words.includes(lower) || words.includes(stem))
  return [...new Set([stem, lower, ...groups.flat()])]
}

/** Returns the share of a word that may be misspelt: none of a short one, which would be another word. */
export function isMisspelt(word: string): number | false {
  return word.length > 5 ? 0.2 : false
}

/** Returns how much a section counts: pages that say what to do come before those that compare, or say how it is made. */
export function boostPage(id: string): number {
  // The front page has the titles of all others.
  if (id.startsWith('/#') || id === '/') return 0
  // Where one client is blocked, which most searches are about.
  if (id.startsWith('/guides/overrides')) return 4
  if (/^\/(?:decisions|reference\/types)\/|^\/guides\/coming-from|^\/reference\/(?:tables|glossary)/.test(id))
    return 0.3
  return /^\/(?:guides|start|reference\/settings)/.test(id) ? 1.5 : 1
}

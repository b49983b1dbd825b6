export const HEADER_VARIANTS = ['legacy', 'draft', 'both', 'none'] as const

/**
 * `legacy` are the `X-RateLimit-*` headers, `draft` the fields `RateLimit-Policy` and `RateLimit` of
 * draft-ietf-httpapi-ratelimit-headers-11, `both` all of them, with the parameters of draft 7 in `RateLimit`.
 */
export type HeaderVariant = (typeof HEADER_VARIANTS)[number]

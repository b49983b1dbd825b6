/** The names of what limits and usage count: `requests`, `tokens`, `content-bytes`. */
export const UNIT = /^[a-z][a-z0-9_-]{0,29}$/
export const UNIT_ALLOWED = 'at most 30 of a-z 0-9 - _, beginning with a letter'
/** The unit of limits that name none. */
export const REQUESTS = 'requests'

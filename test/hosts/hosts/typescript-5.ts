import type { Host } from '../host.js'
import { typesHost } from '../types.js'

export const host: Host = typesHost(5, {
  nodenext: { module: 'nodenext' },
  'nodenext-cjs': { module: 'nodenext' },
  bundler: { module: 'esnext', moduleResolution: 'bundler' },
})

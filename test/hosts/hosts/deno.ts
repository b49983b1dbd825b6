import type { Host } from '../host.js'
import { runtimeHost } from '../runtimes.js'

// What the package `deno` runs when it is installed only puts one of these in its place.
const LIBC = process.platform === 'linux' ? '-glibc' : ''
const NAME = `@deno/${process.platform}-${process.arch}${LIBC}`

export const host: Host = runtimeHost([`${NAME}@2`], () => `node_modules/${NAME}/deno`, [
  'run',
  '--allow-all',
  '--node-modules-dir=manual',
])

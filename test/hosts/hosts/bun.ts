import type { Host } from '../host.js'
import { runtimeHost } from '../runtimes.js'

// What the package `bun` runs when it is installed only puts one of these in its place.
const NAME = `@oven/bun-${process.platform}-${process.arch === 'x64' ? 'x64-baseline' : 'aarch64'}`

export const host: Host = runtimeHost([`${NAME}@1`], () => `node_modules/${NAME}/bin/bun`, ['run'])

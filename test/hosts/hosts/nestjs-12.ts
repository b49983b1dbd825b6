import type { Host } from '../host.js'
import { nestHost } from '../nest.js'

export const host: Host = { ...nestHost('12.5.0', '5.12.8'), isQuick: true }

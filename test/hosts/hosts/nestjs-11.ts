import type { Host } from '../host.js'
import { nestHost } from '../nest.js'

export const host: Host = nestHost('11.2.8', '5.11.3')

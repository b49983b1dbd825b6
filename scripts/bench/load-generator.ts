import { autocannonLoad } from './autocannon-load.js'
import type { LoadGenerator } from './load.js'
import { isWrkInstalled, wrkLoad } from './wrk-load.js'

/** wrk where it is installed: a load in JavaScript takes so much of a small machine that all servers look alike. */
export function findLoadGenerator(): LoadGenerator {
  return isWrkInstalled() ? wrkLoad : autocannonLoad
}

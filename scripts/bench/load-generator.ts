import { autocannonLoad } from './autocannon-load.js'
import type { LoadGenerator } from './load.js'
import { isWrkInstalled, wrkLoad } from './wrk-load.js'

/** Prefers wrk: a load in JavaScript uses so much of a small machine that all servers seem equal. */
export function findLoadGenerator(): LoadGenerator {
  return isWrkInstalled() ? wrkLoad : autocannonLoad
}

import { createRequire } from 'node:module'

/** Returns whether an optional package is installed. */
export function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name)
    return true
  } catch {
    return false
  }
}

import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { isSource, modulePath } from '../ground/package-root.js'

/**
 * Starts a module of this folder on a thread of its own.
 *
 * @param name of the module, without its ending
 * @throws where the process may start no thread
 */
export function startWorker(name: string, workerData: object): Worker {
  // Modules that the process preloads (such as tracing) do not belong in the worker.
  const options = { workerData, name: 'fastify-smart-ratelimit', execArgv: [] }
  const path = modulePath(`src/database/${name}`)
  if (!isSource) return new Worker(path, options)
  // A worker does not inherit the loader of the sources.
  const source = JSON.stringify(pathToFileURL(path).href)
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${source}) })`
  return new Worker(load, { ...options, eval: true })
}

import { Worker } from 'node:worker_threads'

/**
 * Starts a module of this folder on a thread of its own.
 *
 * @param name of the module, without its ending
 * @throws where the process may start no thread
 */
export function startWorker(name: string, workerData: object): Worker {
  // Modules that the process preloads (such as tracing) do not belong in the worker.
  const options = { workerData, name: 'fastify-smart-ratelimit', execArgv: [] }
  if (!import.meta.url.endsWith('.ts')) return new Worker(new URL(`./${name}.js`, import.meta.url), options)
  // This package's own tests run the sources, whose loader a worker does not inherit.
  const source = JSON.stringify(new URL(`./${name}.ts`, import.meta.url))
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${source}) })`
  return new Worker(load, { ...options, eval: true })
}

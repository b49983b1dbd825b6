import { Worker } from 'node:worker_threads'

/**
 * Starts a module of this folder on a thread of its own.
 *
 * @param name of the module, without its ending
 * @throws where the process may start no thread
 */
export function startWorker(name: string, workerData: object): Worker {
  // What the process was told to load first (tracing, say) has no business there.
  const options = { workerData, name: 'fastify-smart-ratelimit', execArgv: [] }
  if (!import.meta.url.endsWith('.ts')) return new Worker(new URL(`./${name}.js`, import.meta.url), options)
  // The sources, in this package's own tests: a worker does not take over the loader they run through.
  const source = JSON.stringify(new URL(`./${name}.ts`, import.meta.url))
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${source}) })`
  return new Worker(load, { ...options, eval: true })
}

/** An app whose requests go on until a test ends them, and are charged whenever it wants. */
import type { TestContext } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { eventually } from './eventually.js'
import { type GroupApp, type GroupRule, startGroupApp } from './group-app.js'
import type { Answer } from './http-client.js'
import type { TestStore } from './stores.js'

/** A request that was let through. */
export interface Running {
  /** Charges it for tokens, and resolves with what is left of them. */
  charge(tokens: number): Promise<number | null>
  end(): Promise<Answer>
}

export interface RunningApp extends GroupApp {
  /** Starts a request, by Alice unless by another user, and resolves when its handler runs. */
  run(user?: string): Promise<Running>
}

export async function startRunningApp(
  t: TestContext,
  rules: readonly GroupRule[],
  { open, plugin }: { readonly open?: (() => Promise<TestStore>) | undefined; readonly plugin?: RateLimitOptions } = {},
): Promise<RunningApp> {
  const started: { charge: Running['charge']; end(): void }[] = []
  const groupApp = await startGroupApp(t, rules, {
    open,
    ...(plugin === undefined ? {} : { plugin }),
    routes(app) {
      app.get('/*', async (request) => {
        const charge = async (tokens: number) => (await app.smartRateLimit.charge(request, { tokens })).tokens ?? null
        await new Promise<void>((end) => started.push({ charge, end }))
        return 'ok'
      })
    },
  })
  return {
    ...groupApp,
    async run(user = 'alice') {
      const answer = groupApp.request('/', { headers: { 'x-user': user } })
      await eventually('the handler runs', () => started.length > 0)
      const [running] = started.splice(0)
      if (running === undefined) throw new Error('No handler runs')
      const { charge, end } = running
      return {
        charge,
        end() {
          end()
          return answer
        },
      }
    },
  }
}

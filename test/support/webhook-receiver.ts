/** A real receiver of webhooks on a port of this machine, which behaves as a test wants. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.js'

export interface ReceivedPost {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A status; `hang` answers never, `drop` hangs up, `drip` begins an answer that never ends. */
export type Behaviour = number | 'hang' | 'drop' | 'drip'

export interface WebhookReceiver {
  /** The address with a token in its path, as secret as that of a chat. */
  readonly url: string
  readonly port: number
  readonly posts: readonly ReceivedPost[]
}

export const TOKEN = 'T0K3N-that-nobody-may-see'

/** @param behaviours what it does with each post, the last one with all that follow; 200 unless given */
export async function startWebhookReceiver(t: TestContext, ...behaviours: Behaviour[]): Promise<WebhookReceiver> {
  const posts: ReceivedPost[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      posts.push({ path: request.url ?? '', method: request.method ?? '', headers: request.headers, body })
      behave(response, behaviours[Math.min(posts.length, behaviours.length) - 1] ?? 200)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/hooks/${TOKEN}`, port, posts }
}

function behave(response: ServerResponse, behaviour: Behaviour): void {
  if (behaviour === 'hang') return
  if (behaviour === 'drop') response.destroy()
  else if (behaviour === 'drip') response.writeHead(200).write('o')
  else if (behaviour >= 300 && behaviour < 400) response.writeHead(behaviour, { location: '/elsewhere' }).end()
  else response.writeHead(behaviour).end('{}')
}

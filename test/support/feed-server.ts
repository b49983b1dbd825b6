import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.js'

let pair: { readonly key: Buffer; readonly cert: Buffer } | undefined

/** A certificate that nobody has signed, made once. */
function certificate() {
  if (pair !== undefined) return pair
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-test-feed-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  const options = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key, '-out', cert]
  execFileSync('openssl', [...options, ...subject], { stdio: 'ignore' })
  pair = { key: readFileSync(key), cert: readFileSync(cert) }
  rmSync(folder, { recursive: true })
  return pair
}

/** A server of lists over HTTPS, which answers what the test last told it to. */
export async function startFeed(t: TestContext) {
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  const requests: IncomingHttpHeaders[] = []
  let answer: (response: ServerResponse, headers: IncomingHttpHeaders) => void = (response) => response.end('')
  const server = createServer(certificate(), (request, response) => {
    requests.push(request.headers)
    answer(response, request.headers)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/list.txt?token=secret`,
    /** The headers of the requests so far. */
    requests,
    answers(next: string | typeof answer): void {
      answer = typeof next === 'string' ? (response) => response.end(next) : next
    },
  }
}

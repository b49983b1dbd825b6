/** The resources whose actions take POST, also in the host's own AdminJS. */
const RESOURCES = [
  'rules',
  'overrides',
  'changes',
  'events',
  'counters',
  'sliding-windows',
  'token-buckets',
  'leaky-buckets',
]

// AdminJS's buttons name the method GET, whatever they change; its pages, which only read, name no method. The header
// marks a request of the panel's script: no image, link, frame or form can send it.
for (const name of ['getDashboard', 'getPage', 'resourceAction', 'recordAction', 'bulkAction']) {
  const send = AdminJS.ApiClient.prototype[name]
  AdminJS.ApiClient.prototype[name] = function sendFromPanel(options) {
    const { method, resourceId } = options ?? {}
    const isButton = method === 'get' && RESOURCES.includes(resourceId)
    const headers = { ...options?.headers, 'X-Rate-Limit-Panel': '1' }
    return send.call(this, { ...options, ...(isButton ? { method: 'post' } : {}), headers })
  }
}

/** Shows nothing; a component, so that it is part of the script that AdminJS makes of these files. */
export default function RateLimitApiClient() {
  return null
}

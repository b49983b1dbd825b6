/** The resources whose actions take POST, in an AdminJS of the host's own too. */
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

// AdminJS's buttons ask for GET by its name, whatever they change; its pages, which only read, name no method. The header
// says that a script of the panel sent a request: no image, link, frame or form can send it.
for (const name of ['getDashboard', 'getPage', 'resourceAction', 'recordAction', 'bulkAction']) {
  const send = AdminJS.ApiClient.prototype[name]
  AdminJS.ApiClient.prototype[name] = function sendFromPanel(options) {
    const { method, resourceId } = options ?? {}
    const isButton = method === 'get' && RESOURCES.includes(resourceId)
    const headers = { ...options?.headers, 'X-Rate-Limit-Panel': '1' }
    return send.call(this, { ...options, ...(isButton ? { method: 'post' } : {}), headers })
  }
}

/** Shows nothing: as a component, it is part of the script that AdminJS makes of these files. */
export default function RateLimitApiClient() {
  return null
}

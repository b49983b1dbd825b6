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
  'concurrency',
]
const FORMS = ['new', 'edit']
const FORBIDDEN = 403

// AdminJS's buttons name the method GET, whatever they change; its pages, which only read, name no method. The header
// marks a request of the panel's script: no image, link, frame or form can send it.
for (const name of ['getDashboard', 'getPage', 'resourceAction', 'recordAction', 'bulkAction']) {
  const send = AdminJS.ApiClient.prototype[name]
  AdminJS.ApiClient.prototype[name] = async function sendFromPanel(options) {
    const { method, resourceId, recordId, actionName } = options ?? {}
    const isOurs = RESOURCES.includes(resourceId)
    const isButton = method === 'get' && isOurs
    const headers = { ...options?.headers, 'X-Rate-Limit-Panel': '1' }
    try {
      return await send.call(this, { ...options, ...(isButton ? { method: 'post' } : {}), headers })
    } catch (error) {
      const isForm = isOurs && FORMS.includes(actionName) && options.data !== undefined
      if (!isForm && !isButton && method !== 'post') throw error
      // An answer with a notice, as AdminJS shows it: a form keeps what was typed.
      const record = isForm ? { id: recordId, params: {}, errors: {}, populated: {} } : undefined
      return { data: { notice: noticeFor(error), record, hasFailed: true } }
    }
  }
}

function noticeFor({ response }) {
  const notice = (text, signIn) => ({
    message: 'rateLimitNotice',
    type: 'error',
    options: { defaultValue: text, ...(signIn && { signIn }) },
  })
  if (response === undefined) return notice('Nothing was saved: the server does not answer. Try again.')
  const { status, data } = response
  if (status !== FORBIDDEN || data?.denied)
    return notice(`Nothing was saved: ${data?.error ?? `the server answered ${status}.`}`)
  const { paths } = REDUX_STATE
  // Without an address to sign out, the host has its own sign-in.
  const signIn = paths.logoutPath === '' ? paths.rootPath : paths.loginPath
  return notice('Nothing was saved: you are signed out. This page stays as it is: sign in, then try again.', signIn)
}

/** Shows nothing; a component, so that it is part of the script that AdminJS makes of these files. */
export default function RateLimitApiClient() {
  return null
}

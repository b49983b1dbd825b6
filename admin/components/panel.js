/* The script of the panel: it marks and posts what AdminJS would send by GET, and edits fields of a list in place. */

/** The resources whose actions take POST, also in the host's own AdminJS. */
const RESOURCES = [
  'rules',
  'overrides',
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
  // A host without an address to sign out has its own sign-in.
  const signIn = paths.logoutPath === '' ? paths.rootPath : paths.loginPath
  return notice('Nothing was saved: you are signed out. This page stays as it is: sign in, then try again.', signIn)
}

const NO_NUMBER = 'Not saved: a priority must be an integer.'

/** Shows a field that is edited in the list itself. */
function RateLimitInList(props) {
  const { property, record } = props
  const isSwitch = property.type === 'boolean'
  const actions = isSwitch ? record.bulkActions : record.recordActions
  // Users who may not change it see it.
  if (!actions.some(({ name }) => name === (isSwitch ? 'enable' : 'edit'))) {
    const value = record.params[property.path]
    return React.createElement('span', null, isSwitch ? (value === true ? 'On' : 'Off') : String(value))
  }
  return React.createElement(props.property.type === 'boolean' ? Toggle : NumberField, props)
}

/** Shows a switch, which saves at once. */
function Toggle({ property, record, resource }) {
  const { createElement: h, useEffect, useState } = React
  const sendNotice = AdminJS.useNotice()
  const stored = record.params[property.path] === true
  const [isOn, setOn] = useState(stored)
  const [isSaving, setSaving] = useState(false)
  useEffect(() => setOn(stored), [stored])

  async function toggle(event) {
    event.preventDefault()
    event.stopPropagation()
    setSaving(true)
    setOn(!isOn)
    const problem = await problemOf((api) =>
      api.bulkAction({
        resourceId: resource.id,
        recordIds: [record.id],
        actionName: isOn ? 'disable' : 'enable',
        method: 'post',
      }),
    )
    setSaving(false)
    if (problem === undefined) {
      record.params[property.path] = !isOn
      return
    }
    setOn(isOn)
    sendNotice({ message: 'rateLimitNotice', type: 'error', options: { defaultValue: problem } })
  }

  return h(
    'button',
    {
      type: 'button',
      role: 'switch',
      'aria-checked': isOn,
      'aria-label': `Active: ${record.title}`,
      className: 'rate-limit-switch',
      disabled: isSaving,
      onClick: toggle,
    },
    isOn ? 'On' : 'Off',
  )
}

/** Shows a number field, which saves on Enter, or when it loses the focus. */
function NumberField({ property, record, resource }) {
  const { createElement: h, useEffect, useState } = React
  const sendNotice = AdminJS.useNotice()
  const stored = String(record.params[property.path] ?? 0)
  const [text, setText] = useState(stored)
  useEffect(() => setText(stored), [stored])

  async function saveChange() {
    if (text === stored) return
    // The browser returns an empty text for a text that is not a number, which would be saved as 0.
    const problem = text === '' ? NO_NUMBER : await save(resource.id, record.id, property.path, text)
    if (problem === undefined) {
      record.params[property.path] = Number(text)
      sendNotice({
        message: 'rateLimitNotice',
        type: 'success',
        options: { defaultValue: `Priority of ${record.title}: ${text}.` },
      })
      return
    }
    setText(stored)
    sendNotice({ message: 'rateLimitNotice', type: 'error', options: { defaultValue: problem } })
  }

  function pressed(event) {
    if (event.key === 'Enter') event.target.blur()
    if (event.key === 'Escape') setText(stored)
  }

  return h('input', {
    type: 'number',
    step: 1,
    'aria-label': `Priority: ${record.title}`,
    className: 'rate-limit-input rate-limit-priority',
    value: text,
    onClick: (event) => event.stopPropagation(),
    onChange: (event) => setText(event.target.value),
    onBlur: saveChange,
    onKeyDown: pressed,
  })
}

/** Saves one field, and returns the problem where it could not be saved. */
function save(resourceId, recordId, field, value) {
  const data = new FormData()
  data.set(field, String(value))
  return problemOf((api) => api.recordAction({ resourceId, recordId, actionName: 'edit', data }))
}

/** Returns the problem of an action, where there is one. */
async function problemOf(act) {
  try {
    const { data: answer } = await act(new AdminJS.ApiClient())
    const wrong = Object.values(answer.record?.errors ?? {}).map(({ message }) => message)
    if (wrong.length > 0) return wrong.join(' ')
    return answer.notice?.type === 'error' ? (answer.notice.options?.defaultValue ?? 'Not saved.') : undefined
  } catch {
    return 'Not saved: the server does not answer, or you are signed out. Reload the page.'
  }
}

AdminJS.UserComponents = { ...AdminJS.UserComponents, RateLimitInList }

const NO_NUMBER = 'Not saved: a priority must be an integer.'

/** Shows a field that is edited in the list itself. */
export default function RateLimitInList(props) {
  const { property, record } = props
  const isSwitch = property.type === 'boolean'
  const actions = isSwitch ? record.bulkActions : record.recordActions
  // Those who may not change it see it.
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
    // For a text that is not a number the browser returns an empty text, which would be saved as 0.
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

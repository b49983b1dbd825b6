/** Shows what the rule in the form would have done to the requests of the last day, before it is saved. */
export default function RateLimitPreview({ record, resource }) {
  const { createElement: h, useState } = React
  const { Box, Button } = AdminJSDesignSystem
  const [lines, setLines] = useState([])
  const [isAsking, setAsking] = useState(false)

  async function ask() {
    setAsking(true)
    setLines(await preview(resource.id, record?.params ?? {}))
    setAsking(false)
  }

  return h(
    Box,
    { mb: 'xl', className: 'rate-limit-preview' },
    h(Button, { type: 'button', onClick: ask, disabled: isAsking }, 'Preview on the last 24 hours'),
    h(
      'div',
      { role: 'status', 'aria-live': 'polite' },
      isAsking ? h('p', null, 'Replaying the log …') : lines.map((line) => h('p', { key: line }, line)),
    ),
  )
}

async function preview(resourceId, params) {
  const data = new FormData()
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined) data.set(name, String(value))
  }
  // The server does not answer a form without a field.
  data.set('asked', 'true')
  try {
    const { data: answer } = await new AdminJS.ApiClient().resourceAction({ resourceId, actionName: 'preview', data })
    const wrong = Object.entries(answer.errors ?? {}).map(([field, message]) => `${field}: ${message}`)
    return wrong.length > 0 ? ['Nothing to preview yet:', ...wrong] : answer.sentences
  } catch {
    return ['No preview: the server does not answer, or you are signed out. Reload the page.']
  }
}

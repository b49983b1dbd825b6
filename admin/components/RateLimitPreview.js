/**
 * Says what the rule in the form would have done to the requests of the last day, before it is saved, and which rates
 * fit what clients did.
 */
export default function RateLimitPreview({ record, resource, onChange }) {
  const { createElement: h, useEffect, useState } = React
  const { RateLimitChart } = AdminJS.UserComponents
  const [answer, setAnswer] = useState({ sentences: [] })
  const [asking, setAsking] = useState('')

  async function show(actionName) {
    setAsking(actionName === 'preview' ? 'Replaying the log …' : 'Reading the log …')
    setAnswer(await ask(resource.id, actionName, record?.params ?? {}))
    setAsking('')
  }

  // A form that a link filled in, as that from a filter of the dashboard does. Its fields come after the first drawing.
  const isFilledIn = !record?.id && Boolean(record?.params?.pathPattern)
  useEffect(() => {
    if (isFilledIn && new URLSearchParams(window.location.search).has('pathPattern')) void show('suggest')
  }, [isFilledIn])

  const button = (text, actionName) =>
    h(
      'button',
      { type: 'button', className: 'rate-limit-button', onClick: () => show(actionName), disabled: asking !== '' },
      text,
    )
  return h(
    'div',
    { className: 'rate-limit-preview' },
    h(
      'div',
      { className: 'rate-limit-row' },
      button('Preview on the last 24 hours', 'preview'),
      button('Suggest rates', 'suggest'),
    ),
    h(
      'div',
      { role: 'status', 'aria-live': 'polite' },
      asking === '' ? answer.sentences.map((line) => h('p', { key: line }, line)) : h('p', null, asking),
    ),
    asking === '' && answer.chart && h(RateLimitChart, { chart: answer.chart }),
    asking === '' &&
      answer.rates &&
      h(RateLimitRates, { rates: answer.rates, choose: (rate) => onChange('rate', rate) }),
  )
}

async function ask(resourceId, actionName, params) {
  const data = new FormData()
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined) data.set(name, String(value))
  }
  // The server does not answer a form without a field.
  data.set('asked', 'true')
  try {
    const { data: answer } = await new AdminJS.ApiClient().resourceAction({ resourceId, actionName, data })
    const wrong = Object.entries(answer.errors ?? {}).map(([field, message]) => `${field}: ${message}`)
    return wrong.length > 0 ? { sentences: ['Nothing to preview yet:', ...wrong] } : answer
  } catch {
    return { sentences: ['No answer: the server does not answer, or you are signed out. Reload the page.'] }
  }
}

/** Offers rates for the rule in the form, each with what it would have refused. */
function RateLimitRates({ rates, choose }) {
  const { createElement: h } = React
  if (rates.length === 0) return null
  const head = ['Rate', 'Clients that never exceed it', 'Would refuse clients', 'Would refuse requests']
  return h(
    'table',
    { className: 'rate-limit-table' },
    h(
      'thead',
      null,
      h(
        'tr',
        null,
        head.map((text) => h('th', { key: text, scope: 'col' }, text)),
        h('td', null),
      ),
    ),
    h(
      'tbody',
      null,
      rates.map(({ rate, percentile, clients, requests }) =>
        h(
          'tr',
          { key: `${rate} ${percentile}` },
          h('th', { scope: 'row' }, rate),
          [`${percentile}%`, clients, requests].map((text, place) =>
            h('td', { key: head[place + 1], 'data-label': head[place + 1] }, text),
          ),
          h(
            'td',
            null,
            h(
              'button',
              {
                type: 'button',
                className: 'rate-limit-button',
                onClick: () => choose(rate),
                'aria-label': `Use ${rate}`,
              },
              'Use',
            ),
          ),
        ),
      ),
    ),
  )
}

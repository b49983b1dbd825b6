/** Offers rates for the rule in the form, each with what it would have refused. */
export default function RateLimitRates({ rates, choose }) {
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

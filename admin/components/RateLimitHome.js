/** Shows what is in force, and which clients are refused. */
export default function RateLimitHome() {
  const { createElement: h, useEffect, useState } = React
  const { Box, H2, H4, MessageBox } = AdminJSDesignSystem
  const [home, setHome] = useState()
  const [hasFailed, setFailed] = useState(false)
  useEffect(() => {
    new AdminJS.ApiClient().getDashboard().then(
      ({ data }) => setHome(data),
      () => setFailed(true),
    )
  }, [])
  const root = REDUX_STATE.paths.rootPath
  const link = (href, text) => (href === undefined ? null : h('a', { href, className: 'rate-limit-link' }, text))

  function tile({ label, value, detail, resource }) {
    return h(
      'a',
      { key: label, className: 'rate-limit-tile', href: `${root}/resources/${resource}` },
      h('span', { className: 'rate-limit-help' }, label),
      h('strong', null, value),
      h('span', { className: 'rate-limit-help' }, detail),
    )
  }

  function offender({ key, blocked, href, limit, block, events }) {
    return h(
      'tr',
      { key },
      h('th', { scope: 'row', className: 'rate-limit-code' }, link(href ?? events, key)),
      h('td', null, `${blocked} blocked`),
      h('td', null, h('div', { className: 'rate-limit-links' }, link(limit, 'Limit'), link(block, 'Block'))),
    )
  }

  function content({ tiles, offenders, empty, notices, dashboard }) {
    return [
      ...notices.map((text) => h(MessageBox, { key: text, variant: 'info', mb: 'xl', message: text })),
      h('div', { key: 'tiles', className: 'rate-limit-tiles' }, tiles.map(tile)),
      h(H4, { key: 'title', mt: 'xxl' }, 'Most blocked clients of the last 24 hours'),
      offenders.length === 0
        ? h('p', { key: 'none', className: 'rate-limit-help' }, empty)
        : h('table', { key: 'offenders', className: 'rate-limit-table' }, h('tbody', null, offenders.map(offender))),
      dashboard === undefined ? null : h('p', { key: 'more' }, link(dashboard, 'More on the dashboard')),
    ]
  }

  return h(
    Box,
    { variant: 'grey' },
    h(
      Box,
      { variant: 'white' },
      h(H2, { mb: 'xl' }, 'Overview'),
      hasFailed ? 'The server does not answer.' : home && content(home),
    ),
  )
}

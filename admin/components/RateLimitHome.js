/** Shows what is in force, and which clients are refused. */
export default function RateLimitHome() {
  const { createElement: h, useEffect, useState } = React
  const [home, setHome] = useState()
  const [hasFailed, setFailed] = useState(false)
  useEffect(() => {
    document.title = 'Overview · Rate limits'
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

  function client({ name, refused, href, block }) {
    return h(
      'tr',
      { key: name },
      h('th', { scope: 'row', className: 'rate-limit-code' }, link(href, name) ?? name),
      h('td', null, refused),
      block === undefined ? null : h('td', null, link(block, 'Block')),
    )
  }

  function content({ tiles, clients, empty, notices, dashboard }) {
    return [
      ...notices.map((text) => h('p', { key: text, className: 'rate-limit-notice', role: 'note' }, text)),
      h('div', { key: 'tiles', className: 'rate-limit-tiles' }, tiles.map(tile)),
      h('h2', { key: 'title' }, 'Most refused clients of the last 24 hours'),
      clients.length === 0
        ? h('p', { key: 'none', className: 'rate-limit-help' }, empty)
        : h('table', { key: 'clients', className: 'rate-limit-table' }, h('tbody', null, clients.map(client))),
      dashboard === undefined ? null : h('p', { key: 'more' }, link(dashboard, 'More on the dashboard')),
    ]
  }

  return h(
    'div',
    null,
    h('div', { className: 'rate-limit-header' }, h('h1', null, 'Overview')),
    h(
      'div',
      { className: 'rate-limit-card' },
      hasFailed ? 'The server does not answer, or you are signed out. Reload the page.' : home && content(home),
    ),
  )
}

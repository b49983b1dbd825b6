/** Shows which page of a list this is, with links to the next one and the one before. */
export default function PanelPages({ page, perPage, total }) {
  const { createElement: h } = React
  const { search } = ReactRouter.useLocation()
  const last = Math.ceil(total / perPage)
  if (!(last > 1)) return null

  function link(target, text) {
    const query = new URLSearchParams(search)
    query.set('page', String(target))
    const isThere = target >= 1 && target <= last
    return isThere
      ? h(ReactRouterDOM.Link, { className: 'rate-limit-button', to: { search: query.toString() } }, text)
      : h('span', { className: 'rate-limit-button', 'aria-disabled': true, role: 'link' }, text)
  }
  return h(
    'nav',
    { className: 'rate-limit-row rate-limit-pages', 'aria-label': 'Pages of the list' },
    link(Number(page) - 1, 'Previous'),
    h('span', { 'aria-current': 'page' }, `Page ${Number(page).toLocaleString('en')} of ${last.toLocaleString('en')}`),
    link(Number(page) + 1, 'Next'),
  )
}

/** Shows the client of an event, with links to its page on the dashboard and to an override for it. */
export default function RateLimitClient({ property, record, where }) {
  const { createElement: h } = React
  const { ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const { params } = record
  const key = params[property.path]
  const mayBlock = REDUX_STATE.session?.rateLimitRights?.includes('writeOverrides') ?? true
  const to = (name, text) => {
    const href = params[`links.${name}`]
    return href === undefined ? null : h('a', { key: name, href, className: 'rate-limit-link' }, text)
  }
  if (where !== 'show') return to('offender', key) ?? h('span', null, key)
  return h(
    ValueGroup,
    { label: translateProperty(property.label, property.resourceId) },
    h('div', { className: 'rate-limit-code' }, key),
    h(
      'div',
      { className: 'rate-limit-links' },
      to('offender', 'On the dashboard'),
      mayBlock ? [to('limit', 'Limit this client'), to('block', 'Block')] : null,
    ),
  )
}

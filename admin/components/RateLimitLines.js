/** Shows a text of several lines. */
export default function RateLimitLines({ property, record, where }) {
  const { createElement: h } = React
  const { ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const text = h('div', { className: 'rate-limit-lines' }, record.params[property.path])
  return where === 'show'
    ? h(ValueGroup, { label: translateProperty(property.label, property.resourceId) }, text)
    : text
}

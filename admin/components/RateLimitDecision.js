/** Shows the outcome of a request. */
export default function RateLimitDecision({ property, record, where }) {
  const { createElement: h } = React
  const { ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const [kind, text] = decisionOf(record.params)
  const badge = h('span', { className: `rate-limit-badge ${kind}` }, text)
  return where === 'show'
    ? h(ValueGroup, { label: translateProperty(property.label, property.resourceId) }, badge)
    : badge
}

/** Returns the outcome; rows that other programs wrote have none. */
function decisionOf({ allowed, outcome, count, limit }) {
  if (allowed) return Number(count) > Number(limit) ? ['over-limit', 'Would be refused'] : ['allowed', 'Allowed']
  return ['blocked', outcome === 'denied' ? 'Denied' : 'Over the limit']
}

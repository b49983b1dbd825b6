/** Shows the outcome of a request. */
export default function RateLimitDecision({ property, record, where }) {
  const { createElement: h } = React
  const { Badge, ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const { allowed, count, limit } = record.params
  const isOver = Number(count) > Number(limit)
  const [variant, text] = allowed
    ? isOver
      ? ['secondary', 'Over limit']
      : ['success', 'Allowed']
    : ['danger', 'Blocked']
  const badge = h(Badge, { variant, size: 'sm' }, text)
  return where === 'show'
    ? h(ValueGroup, { label: translateProperty(property.label, property.resourceId) }, badge)
    : badge
}

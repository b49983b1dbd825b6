/** Between two moments, in UTC as the list has them, and not in the time zone of whoever looks. */
export default function RateLimitPeriod({ property, filter, onChange }) {
  const { createElement: h } = React
  const { FormGroup, Label } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const { path, label, resourceId } = property

  return ['from', 'to'].map((end) => {
    const name = `${path}~~${end}`
    const id = `filter-${name}`
    return h(
      FormGroup,
      { key: end },
      h(Label, { htmlFor: id }, `${translateProperty(label, resourceId)} ${end} (UTC)`),
      h('input', {
        id,
        type: 'datetime-local',
        // Seconds too, which an address may have.
        step: 'any',
        max: '9999-12-31T23:59:59.999',
        className: 'rate-limit-input',
        value: textOf(filter?.[name]),
        onChange: ({ target }) => onChange(name, target.value === '' ? undefined : `${target.value}Z`),
      }),
    )
  })
}

/** As the browser spells it, so that what is being typed is not written anew. */
function textOf(value) {
  const moment = new Date(value ?? Number.NaN)
  return Number.isNaN(moment.getTime()) ? '' : moment.toISOString().replace(/(:00)?\.?0*Z$/, '')
}

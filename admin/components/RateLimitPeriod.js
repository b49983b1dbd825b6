/** Filters by two moments, in the reader's time zone as in the list. Addresses have them in UTC. */
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
      h(Label, { htmlFor: id }, `${translateProperty(label, resourceId)} ${end}`),
      h('input', {
        id,
        type: 'datetime-local',
        // Accepts seconds too, which a link may contain.
        step: 'any',
        max: '9999-12-31T23:59:59.999',
        className: 'rate-limit-input',
        value: toText(filter?.[name]),
        onChange: ({ target }) => onChange(name, toIso(target.value)),
      }),
    )
  })
}

function toIso(text) {
  const moment = new Date(text)
  return Number.isNaN(moment.getTime()) ? undefined : moment.toISOString()
}

/** Returns a moment as the browser spells it, so that the text being typed is not replaced. */
function toText(value) {
  const moment = new Date(value ?? Number.NaN)
  if (Number.isNaN(moment.getTime())) return ''
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000)
  return local.toISOString().replace(/(:00)?\.?0*Z$/, '')
}

const YES_OR_NO = [
  { value: 'true', label: 'Yes' },
  { value: 'false', label: 'No' },
]

/** Shows a choice in the filter of a list. */
export default function RateLimitSelect({ property, filter, onChange }) {
  const { createElement: h } = React
  const { FormGroup, Label } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const { path, props } = property
  const id = `filter-${path}`
  const choices = props?.choices ?? YES_OR_NO
  return h(
    FormGroup,
    null,
    h(Label, { htmlFor: id }, translateProperty(property.label, property.resourceId)),
    h(
      'select',
      {
        id,
        className: 'rate-limit-input',
        value: filter?.[path] ?? '',
        onChange: (event) => onChange(path, event.target.value === '' ? undefined : event.target.value),
      },
      h('option', { value: '' }, 'Any'),
      choices.map(({ value, label }) => h('option', { key: value, value }, label)),
    ),
  )
}

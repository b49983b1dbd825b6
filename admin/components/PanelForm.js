/** Shows a form of a row in groups. Save stays in sight, and what was typed stays until it is saved. */
export default function PanelForm({ record: initial, resource, action }) {
  const { createElement: h, useEffect } = React
  const { record, handleChange, submit, loading, setRecord } = AdminJS.useRecord(initial, resource.id)
  const { parsedQuery } = AdminJS.useQueryParams()
  const navigate = ReactRouter.useNavigate()
  const isNew = action.name === 'new'
  useEffect(() => {
    if (initial === undefined && !isNew) return
    // A link to a new row may fill in fields.
    const given = isNew ? Object.entries(parsedQuery).filter(([name]) => name in resource.properties) : []
    const from = initial ?? record
    setRecord({ ...from, params: { ...from.params, ...Object.fromEntries(given) } })
  }, [initial])

  async function save(event) {
    event.preventDefault()
    const form = event.currentTarget
    const { data } = await submit()
    if (data.redirectUrl) return navigate(data.redirectUrl)
    // After the fields have shown their errors.
    setTimeout(() => form.querySelector('[aria-invalid="true"]')?.focus())
  }

  const groups = action.custom?.groups ?? [{ fields: resource.editProperties.map(({ propertyPath }) => propertyPath) }]
  const field = (name) =>
    h(AdminJS.BasePropertyComponent, {
      key: name,
      where: 'edit',
      onChange: handleChange,
      property: resource.properties[name],
      resource,
      record,
    })
  return h(
    'form',
    { className: 'rate-limit-card rate-limit-form', onSubmit: save },
    groups.map(({ title, fields, isOptional }) => {
      if (title === undefined) return fields.map(field)
      if (!isOptional) return h('section', { key: title }, h('h2', null, title), fields.map(field))
      return h(
        Folded,
        { key: title, title, isUsed: fields.some((name) => isSet(resource, record, name)) },
        fields.map(field),
      )
    }),
    h(
      'div',
      { className: 'rate-limit-row rate-limit-save' },
      h(
        'button',
        {
          type: 'submit',
          className: 'rate-limit-button rate-limit-primary',
          'data-testid': 'button-save',
          disabled: loading,
        },
        'Save',
      ),
      h(ReactRouterDOM.Link, { className: 'rate-limit-button', to: resource.href }, 'Cancel'),
    ),
  )
}

/** Shows a group of fields that most rows leave as they are: folded, until one of them is set or wrong. */
function Folded({ title, isUsed, children }) {
  const { createElement: h, useEffect, useState } = React
  const [isOpen, setOpen] = useState(isUsed)
  useEffect(() => {
    if (isUsed) setOpen(true)
  }, [isUsed])
  return h(
    'details',
    { open: isOpen, onToggle: (event) => setOpen(event.currentTarget.open) },
    h('summary', null, h('h2', null, title)),
    children,
  )
}

/** Returns whether a field has another value than its default, or an error. */
function isSet(resource, { params, errors }, name) {
  const initial = resource.properties[name].custom.initial ?? ''
  return errors?.[name] !== undefined || String(params?.[name] ?? initial) !== String(initial)
}

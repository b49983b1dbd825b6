/** Shows the filter of a list in a dialog of the browser, which keeps the focus inside and closes on Escape. */
export default function FilterDrawer({ resource }) {
  const { createElement: h, useEffect, useRef, useState } = React
  const { isVisible, close } = AdminJS.useFilterDrawer()
  const { filters, storeParams, clearParams } = AdminJS.useQueryParams()
  const [filter, setFilter] = useState(filters ?? {})
  const dialog = useRef(null)
  useEffect(() => setFilter(filters ?? {}), [filters, resource.id])
  useEffect(() => {
    if (isVisible && !dialog.current.open) dialog.current.showModal()
    if (!isVisible) dialog.current.close()
  }, [isVisible])
  // Another list has another filter.
  useEffect(() => close, [resource.id])

  const change = (name, value) => setFilter({ ...filter, [name]: value === '' ? undefined : value })
  function apply(event) {
    event.preventDefault()
    const given = Object.entries(filter).filter(([, value]) => value !== undefined && value !== null)
    storeParams({ filters: Object.fromEntries(given), page: '1' })
    close()
  }
  function clear() {
    setFilter({})
    clearParams('filters')
    close()
  }
  return h(
    'dialog',
    {
      ref: dialog,
      className: 'rate-limit-dialog rate-limit-drawer',
      'aria-labelledby': 'filter-title',
      onClose: close,
    },
    h(
      'form',
      { onSubmit: apply, 'data-css': `${resource.id}-filter-drawer` },
      h('h2', { id: 'filter-title' }, 'Filter'),
      resource.filterProperties.map((property) =>
        h(AdminJS.BasePropertyComponent, {
          key: property.propertyPath,
          where: 'filter',
          onChange: change,
          property,
          filter,
          resource,
        }),
      ),
      h(
        'div',
        { className: 'rate-limit-row rate-limit-end' },
        h('button', { type: 'submit', className: 'rate-limit-button rate-limit-primary' }, 'Apply'),
        h('button', { type: 'button', className: 'rate-limit-button', onClick: clear }, 'Clear'),
        h('button', { type: 'button', className: 'rate-limit-button', onClick: close }, 'Close'),
      ),
    ),
  )
}

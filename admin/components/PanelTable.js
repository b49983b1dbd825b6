const ORDER = { asc: 'ascending', desc: 'descending' }
const MARKS = { asc: ' ▲', desc: ' ▼' }

/** Shows the rows of a list: a table, and on a phone a card for each row, below what the head of the table has. */
export default function PanelTable({ resource, records, sortBy, direction, selected, onSelect, onSelectAll, onDone }) {
  const { createElement: h } = React
  const { translateLabel, translateProperty } = AdminJS.useTranslation()
  const navigate = ReactRouter.useNavigate()
  const { listProperties, titleProperty } = resource
  const canSelect = records.some(({ bulkActions }) => bulkActions.length > 0)
  const isChosen = ({ id }) => selected.some((other) => other.id === id)
  const titleOf = (property) => translateProperty(property.label, property.resourceId)

  function open(event, record) {
    const action = record.recordActions.find(({ name }) => name === 'show')
    if (action === undefined || event.target.closest('a, button, input, label, select') !== null) return
    navigate(addressOf(record))
  }
  const addressOf = ({ id }) =>
    new AdminJS.ViewHelpers().recordActionUrl({ resourceId: resource.id, recordId: id, actionName: 'show' })

  function header(property) {
    const isSorted = sortBy === property.propertyPath
    return h(
      'th',
      { key: property.propertyPath, scope: 'col', 'aria-sort': isSorted ? ORDER[direction] : undefined },
      property.isSortable
        ? h(SortLink, { property, isSorted, direction, title: titleOf(property) })
        : titleOf(property),
    )
  }

  function cell(property, record) {
    const { propertyPath, components } = property
    const isTitle = propertyPath === titleProperty.propertyPath
    const isEmpty = components?.list === undefined && [undefined, null, ''].includes(record.params[propertyPath])
    const value = isEmpty ? '–' : h(AdminJS.BasePropertyComponent, { where: 'list', property, resource, record })
    return h(
      isTitle ? 'th' : 'td',
      {
        key: propertyPath,
        scope: isTitle ? 'row' : undefined,
        'data-css': `${resource.id}-${propertyPath}-table-cell`,
        'data-label': titleOf(property),
      },
      isTitle && components?.list === undefined ? h(ReactRouterDOM.Link, { to: addressOf(record) }, value) : value,
    )
  }

  function row(record) {
    const { id, title } = record
    const box = { type: 'checkbox', checked: isChosen(record), onChange: () => onSelect(record) }
    return h(
      'tr',
      { key: id, 'data-id': id, onClick: (event) => open(event, record) },
      canSelect && h('td', { className: 'rate-limit-choice' }, h('input', { ...box, 'aria-label': `Select ${title}` })),
      listProperties.map((property) => cell(property, record)),
      h('td', { className: 'rate-limit-options' }, h(AdminJS.UserComponents.PanelMenu, { record, onDone })),
    )
  }

  const all = { type: 'checkbox', checked: records.every(isChosen), onChange: onSelectAll, 'aria-label': 'Select all' }
  const sortable = listProperties.filter(({ isSortable }) => isSortable)
  const table = h(
    'table',
    { className: 'rate-limit-rows', 'aria-label': translateLabel(resource.name, resource.id) },
    h(
      'thead',
      null,
      h(
        'tr',
        null,
        canSelect && h('td', { className: 'rate-limit-choice' }, h('input', all)),
        listProperties.map(header),
        h('td', null),
      ),
    ),
    h('tbody', null, records.map(row)),
  )
  return h(
    React.Fragment,
    null,
    h(
      'div',
      { className: 'rate-limit-row rate-limit-sorting' },
      sortable.length > 0 && h(SortSelect, { properties: sortable, sortBy, direction, titleOf }),
      canSelect && h('label', { className: 'rate-limit-box' }, h('input', all), ' All'),
    ),
    table,
  )
}

/** Sorts a list where its cards have no head: each column in both directions. */
function SortSelect({ properties, sortBy, direction, titleOf }) {
  const { createElement: h } = React
  const { search } = ReactRouter.useLocation()
  const navigate = ReactRouter.useNavigate()
  function sort({ target }) {
    const query = new URLSearchParams(search)
    const [order, ...path] = target.value.split(' ')
    query.set('direction', order)
    query.set('sortBy', path.join(' '))
    navigate({ search: query.toString() })
  }
  return h(
    'label',
    { className: 'rate-limit-row' },
    'Sort by',
    h(
      'select',
      { className: 'rate-limit-input', value: `${direction} ${sortBy}`, onChange: sort },
      properties.flatMap((property) =>
        Object.keys(ORDER).map((order) =>
          h(
            'option',
            { key: `${order} ${property.propertyPath}`, value: `${order} ${property.propertyPath}` },
            `${titleOf(property)}, ${ORDER[order]}`,
          ),
        ),
      ),
    ),
  )
}

/** Sorts a list by a column, and the other way round where it is sorted by it. */
function SortLink({ property, isSorted, direction, title }) {
  const { createElement: h } = React
  const query = new URLSearchParams(ReactRouter.useLocation().search)
  query.set('direction', isSorted && direction === 'asc' ? 'desc' : 'asc')
  query.set('sortBy', property.propertyPath)
  return h(
    ReactRouterDOM.Link,
    { to: { search: query.toString() } },
    title,
    isSorted && h('span', { 'aria-hidden': true }, MARKS[direction]),
  )
}

/** The most that is counted; see admin/panel-resource.ts. */
const COUNTED = 10_000

/** Shows a list with what can be done to the selected rows, in place of AdminJS's own. */
export default function DefaultListAction({ resource, setTag }) {
  const { createElement: h, useEffect } = React
  const { records, loading, direction, sortBy, page, total, fetchData, perPage } = AdminJS.useRecords(resource.id)
  const { selectedRecords, handleSelect, handleSelectAll, setSelectedRecords } = AdminJS.useSelectedRecords(records)
  const { translateMessage } = AdminJS.useTranslation()
  const { filtersCount } = AdminJS.useFilterDrawer()
  const { PanelAction, PanelTable } = AdminJS.UserComponents
  useEffect(() => setTag?.(String(total)), [total])
  // Rows that were read again may have other values, and may be gone.
  useEffect(() => setSelectedRecords([]), [records])

  function emptyText() {
    if (loading) return 'Loading …'
    return filtersCount > 0 ? 'No row matches the filter.' : translateMessage('noRecordsInResource', resource.id)
  }

  const bulkActions = selectedRecords.length === 0 ? [] : common(selectedRecords)
  return h(
    'section',
    { className: 'rate-limit-card', 'aria-busy': loading, 'aria-label': 'Rows' },
    bulkActions.length > 0 &&
      h(
        'div',
        { className: 'rate-limit-row rate-limit-selected' },
        h('span', { role: 'status' }, `${selectedRecords.length} selected`),
        bulkActions.map((action) =>
          h(PanelAction, {
            key: action.name,
            action,
            recordIds: selectedRecords.map(({ id }) => id),
            onDone: fetchData,
          }),
        ),
      ),
    records.length === 0
      ? h('p', { className: 'rate-limit-empty', role: 'status' }, emptyText())
      : h(PanelTable, {
          resource,
          records,
          sortBy,
          direction,
          selected: selectedRecords,
          onSelect: handleSelect,
          onSelectAll: handleSelectAll,
          onDone: fetchData,
        }),
    h(PanelPages, { page, perPage, total }),
  )
}

/** Returns the actions that every selected row has. */
function common([first, ...others]) {
  return first.bulkActions.filter(({ name }) =>
    others.every(({ bulkActions }) => bulkActions.some((action) => action.name === name)),
  )
}

/** Shows which page of a list this is, with links to the next one and the one before. */
function PanelPages({ page, perPage, total }) {
  const { createElement: h } = React
  const { search } = ReactRouter.useLocation()
  const last = Math.ceil(total / perPage)
  if (!(last > 1)) return null
  // The server counts no further.
  const lastText = total > COUNTED ? `more than ${(last - 1).toLocaleString('en')}` : last.toLocaleString('en')

  function link(target, text) {
    const query = new URLSearchParams(search)
    query.set('page', String(target))
    const isThere = target >= 1 && target <= last
    return isThere
      ? h(ReactRouterDOM.Link, { className: 'rate-limit-button', to: { search: query.toString() } }, text)
      : h('span', { className: 'rate-limit-button', 'aria-disabled': true, role: 'link' }, text)
  }
  return h(
    'nav',
    { className: 'rate-limit-row rate-limit-pages', 'aria-label': 'Pages of the list' },
    link(Number(page) - 1, 'Previous'),
    h('span', { 'aria-current': 'page' }, `Page ${Number(page).toLocaleString('en')} of ${lastText}`),
    link(Number(page) + 1, 'Next'),
  )
}

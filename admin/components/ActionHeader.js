/** Shows the heading of a page, the way back to the list, and what can be done there. */
export default function ActionHeader({ resource, record, action, tag, omitActions, toggleFilter, actionPerformed }) {
  const { createElement: h, useEffect } = React
  const { translateAction, translateLabel } = AdminJS.useTranslation()
  const { toggleFilter: showFilter, filtersCount, isVisible } = AdminJS.useFilterDrawer()
  const { PanelAction } = AdminJS.UserComponents
  const isList = action.name === 'list'
  const name = translateAction(action.label, resource.id)
  const title = record === undefined ? name : action.name === 'show' ? record.title : `${name}: ${record.title}`
  useEffect(() => {
    document.title = `${title} · Rate limits`
  }, [title])

  const others =
    record === undefined ? resource.resourceActions.filter((each) => each.name === 'new') : record.recordActions
  const actions = omitActions ? [] : others.filter((each) => each.name !== action.name)
  return h(
    'div',
    { className: 'rate-limit-header' },
    h(
      'div',
      null,
      !isList &&
        h(
          ReactRouterDOM.Link,
          { className: 'rate-limit-back', to: resource.href },
          h('span', { 'aria-hidden': true }, '← '),
          `All ${translateLabel(resource.name, resource.id).toLowerCase()}`,
        ),
      h('h1', null, title, isList && tag !== '' && h('span', { className: 'rate-limit-count' }, tag)),
    ),
    h(
      'div',
      { className: 'rate-limit-row' },
      actions.map((each) =>
        h(PanelAction, {
          key: each.name,
          action: each,
          recordId: record?.id,
          title: record?.title,
          onDone: actionPerformed,
          className: `rate-limit-button${each.name === 'new' ? ' rate-limit-primary' : ''}`,
        }),
      ),
      toggleFilter
        ? h(
            'button',
            {
              type: 'button',
              className: 'rate-limit-button',
              'aria-haspopup': 'dialog',
              'aria-expanded': isVisible,
              'data-css': `${resource.id}-filter-button`,
              onClick: showFilter,
            },
            filtersCount > 0 ? `Filter (${filtersCount})` : 'Filter',
          )
        : null,
    ),
  )
}

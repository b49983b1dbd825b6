/** The most that is counted; see admin/panel-resource.ts. */
const COUNTED = 10_000

/** Shows a large list with a note above it. Its rows are counted up to the limit only. */
export default function RateLimitList(props) {
  const { createElement: h, Fragment, useCallback } = React
  const { setTag, action } = props
  const setCount = useCallback(
    (tag) => {
      const count = Number(tag)
      setTag?.(count > COUNTED ? `more than ${COUNTED.toLocaleString('en')}` : count.toLocaleString('en'))
    },
    [setTag],
  )
  const { note } = action.custom ?? {}
  return h(
    Fragment,
    null,
    note === undefined ? null : h('p', { className: 'rate-limit-note' }, note),
    h(AdminJS.List, { ...props, setTag: setCount }),
  )
}

/** The most that is counted; see admin/panel-resource.ts. */
const COUNTED = 10_000

/** A list of the many: what is in it is said above, and no number of millions is counted for it. */
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
    h(AdminJS.OriginalList, { ...props, setTag: setCount }),
  )
}

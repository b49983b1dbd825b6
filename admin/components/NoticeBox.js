/** How long a success stays in view, in milliseconds. A failure stays until it is closed, or the next notice comes. */
const SHOWN_MS = 6_000

/** Shows the latest notice only, so that a success never stands beside an earlier failure. */
export default function NoticeBox() {
  const { createElement: h, useEffect } = React
  const { tm } = AdminJS.useTranslation()
  const dispatch = ReactRedux.useDispatch()
  const notices = ReactRedux.useSelector((state) => state.notices)
  const latest = notices.at(-1)
  const drop = () => {
    for (const { id } of notices) dispatch({ type: 'DROP_NOTICE', data: { noticeId: id } })
  }
  useEffect(() => {
    if (latest === undefined || latest.type === 'error') return undefined
    const timer = setTimeout(drop, SHOWN_MS)
    return () => clearTimeout(timer)
  }, [latest?.id])

  const isError = latest?.type === 'error'
  const content = latest && [
    h('span', { key: latest.id }, tm(latest.message, latest.resourceId, latest.options)),
    latest.options?.signIn &&
      h(
        'a',
        { key: 'sign-in', href: latest.options.signIn, target: '_blank', rel: 'noreferrer' },
        'Sign in in a new tab',
      ),
    h(
      'button',
      { key: 'close', type: 'button', className: 'rate-limit-button rate-limit-quiet', onClick: drop },
      'Close',
    ),
  ]
  // Both regions are there before a notice comes, so that screen readers watch them.
  return h(
    'div',
    { className: 'rate-limit-notices' },
    h('div', { role: 'status', className: 'rate-limit-notice' }, isError ? null : content),
    h('div', { role: 'alert', className: 'rate-limit-notice rate-limit-error' }, isError ? content : null),
  )
}

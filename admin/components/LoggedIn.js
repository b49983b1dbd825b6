/** Shows who is signed in, and a form to sign out, since a link could be followed by mistake. */
export default function LoggedIn({ session, paths }) {
  const { createElement: h } = React
  return h(
    'form',
    { method: 'post', action: paths.logoutPath, className: 'rate-limit-who' },
    h('span', null, session.email),
    paths.logoutPath === '' ? null : h('button', { type: 'submit', className: 'rate-limit-out' }, 'Sign out'),
  )
}

/** Marks the place of the page in the navigation above it, which the server renders, and scrolls to its beginning. */
export default function TopBar() {
  const { pathname } = ReactRouter.useLocation()
  React.useEffect(() => {
    const home = REDUX_STATE.paths.rootPath
    for (const link of document.querySelectorAll('.shell nav a')) {
      const own = link.pathname
      const isHere = pathname === own || (own !== home && pathname.startsWith(`${own}/`))
      if (isHere) {
        link.setAttribute('aria-current', 'page')
        link.scrollIntoView({ block: 'nearest', inline: 'center' })
      } else link.removeAttribute('aria-current')
    }
    window.scrollTo(0, 0)
  }, [pathname])
  return null
}

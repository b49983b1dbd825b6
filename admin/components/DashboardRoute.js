/** Shows the panel's first page at once, where AdminJS shows its own until its script has run. */
export default function DashboardRoute() {
  return React.createElement(AdminJS.UserComponents.RateLimitHome)
}

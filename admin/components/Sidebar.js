/** The navigation stands above the page, the same as on the dashboard. */
export default function Sidebar() {
  return null
}

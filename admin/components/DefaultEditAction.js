/** Shows the form of an existing row, in place of AdminJS's own. */
export default function DefaultEditAction(props) {
  return React.createElement(AdminJS.UserComponents.PanelForm, props)
}

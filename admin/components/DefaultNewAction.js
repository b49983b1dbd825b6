/** Shows the form of a new row, in place of AdminJS's own. */
export default function DefaultNewAction(props) {
  return React.createElement(AdminJS.UserComponents.PanelForm, props)
}

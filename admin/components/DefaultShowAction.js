/** Shows the fields of a row that have a value, in place of AdminJS's own. */
export default function DefaultShowAction({ resource, record }) {
  const { createElement: h } = React
  const isGiven = ({ propertyPath }) => ![undefined, null, ''].includes(record.params[propertyPath])
  return h(
    'div',
    { className: 'rate-limit-card rate-limit-shown' },
    resource.showProperties
      .filter(isGiven)
      .map((property) =>
        h(AdminJS.BasePropertyComponent, { key: property.propertyPath, where: 'show', property, resource, record }),
      ),
  )
}

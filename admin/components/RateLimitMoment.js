/** Shows a moment to the second in the reader's time zone, and in UTC on hover. */
export default function RateLimitMoment({ property, record, where }) {
  const { createElement: h } = React
  const { ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const moment = new Date(record.params[property.path] ?? Number.NaN)
  const time = Number.isNaN(moment.getTime())
    ? h('span', null, '–')
    : h('time', { dateTime: moment.toISOString(), title: `${spelled(moment, 'UTC')} UTC` }, spelled(moment))
  return where === 'show'
    ? h(ValueGroup, { label: translateProperty(property.label, property.resourceId) }, time)
    : time
}

/** @param timeZone the reader's by default */
function spelled(moment, timeZone) {
  // Swedish spells moments as ISO 8601 does.
  return moment.toLocaleString('sv-SE', { timeZone })
}

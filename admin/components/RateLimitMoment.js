/** Shows a moment to the second, in UTC as everywhere in the log, not in the reader's time zone. */
export default function RateLimitMoment({ property, record, where }) {
  const { createElement: h } = React
  const { ValueGroup } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const moment = new Date(record.params[property.path] ?? Number.NaN)
  const isNone = Number.isNaN(moment.getTime())
  const text = isNone ? '–' : moment.toISOString().replace('T', ' ').slice(0, 19)
  const time = isNone ? h('span', null, text) : h('time', { dateTime: moment.toISOString(), title: 'UTC' }, text)
  return where === 'show'
    ? h(ValueGroup, { label: `${translateProperty(property.label, property.resourceId)} (UTC)` }, time)
    : time
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const MAX_KINDS = 3
const NAMED_KINDS = {
  'header:': { label: 'Header name', example: 'X-Api-Key' },
  'cookie:': { label: 'Cookie name', example: 'session' },
}
const INPUT_TYPES = { number: 'number', moment: 'datetime-local', expiry: 'datetime-local' }
const MINUTE_MS = 60_000
const EXPIRIES = [
  { label: '15 minutes', ms: 15 * MINUTE_MS },
  { label: '1 hour', ms: 60 * MINUTE_MS },
  { label: '24 hours', ms: 24 * 60 * MINUTE_MS },
  { label: '7 days', ms: 7 * 24 * 60 * MINUTE_MS },
]

/** The reader's time zone, in which fields have their moments. */
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

/** Shows one field of a form or of a filter, with its help and its error. */
export default function RateLimitField({ property, record, filter, onChange, where }) {
  const { createElement: h } = React
  const { Box, FormGroup, FormMessage, Label } = AdminJSDesignSystem
  const { translateProperty } = AdminJS.useTranslation()
  const { path, custom } = property
  const isFilter = where === 'filter'
  const kind = isFilter ? 'text' : custom.kind
  const given = isFilter ? filter?.[path] : record?.params?.[path]
  const value = given ?? (isFilter ? '' : (custom.initial ?? ''))
  const { message: error, row } = (isFilter ? undefined : record?.errors?.[path]) ?? {}
  const id = `${where}-${path}`
  const isMoment = kind === 'moment' || kind === 'expiry'
  const notes = [custom.help && `${id}-help`, error && `${id}-error`, isMoment && `${id}-zone`].filter(Boolean)
  const described = {
    'aria-describedby': notes.length === 0 ? undefined : notes.join(' '),
    'aria-invalid': error ? 'true' : undefined,
  }
  const change = (changed) => onChange(path, changed)

  function control() {
    const common = { id, name: path, ...described }
    if (kind === 'boolean')
      return boxes(h, [{ ...common, label: custom.label, checked: String(value) === 'true', change }])
    if (kind === 'methods')
      return h(Box, { id, role: 'group', 'aria-label': 'Methods' }, methodBoxes(h, String(value), change))
    if (kind === 'key') return keyControl(h, common, custom.options, String(value), change)
    if (kind === 'select') return choice(h, common, custom.options, value, change)
    if (kind === 'lines') {
      return h('textarea', { ...common, rows: 2, value, className: 'rate-limit-input', onChange: typed(change) })
    }
    return h('input', {
      ...common,
      type: INPUT_TYPES[kind] ?? 'text',
      step: kind === 'number' ? 1 : undefined,
      value: isMoment ? toLocal(value) : value,
      placeholder: custom.example,
      autoComplete: 'off',
      spellCheck: false,
      className: `rate-limit-input${kind === 'code' ? ' rate-limit-code' : ''}`,
      onChange: typed(isMoment ? (text) => change(toIso(text)) : change),
    })
  }

  return h(
    FormGroup,
    { error: Boolean(error) },
    kind === 'boolean' ? null : h(Label, { htmlFor: id }, translateProperty(property.label, property.resourceId)),
    control(),
    kind === 'expiry' ? expiries(h, change) : null,
    isMoment ? h('div', { id: `${id}-zone`, className: 'rate-limit-help' }, `Time zone: ${ZONE}.`) : null,
    error
      ? h(
          FormMessage,
          { id: `${id}-error`, role: 'alert', className: 'rate-limit-wrong' },
          error,
          row === undefined ? null : otherRow(h, property, row),
        )
      : null,
    custom.help ? h('div', { id: `${id}-help`, className: 'rate-limit-help' }, custom.help) : null,
  )
}

function typed(change) {
  return (event) => change(event.target.value)
}

function boxes(h, all) {
  return all.map(({ label, checked, change, ...attributes }) =>
    h(
      'label',
      { key: label, className: 'rate-limit-box' },
      h('input', { ...attributes, type: 'checkbox', checked, onChange: (event) => change(event.target.checked) }),
      ` ${label}`,
    ),
  )
}

function methodBoxes(h, value, change) {
  const chosen = value === 'ALL' ? [] : value.split(',').filter((name) => name !== '')
  const names = [...new Set([...METHODS, ...chosen])]
  const switched = (name) => (isOn) => {
    const kept = chosen.filter((other) => other !== name)
    change((isOn ? [...kept, name] : kept).join(',') || 'ALL')
  }
  return boxes(h, [
    { label: 'All', checked: chosen.length === 0, change: () => change('ALL') },
    ...names.map((name) => ({ label: name, checked: chosen.includes(name), change: switched(name) })),
  ])
}

/** Shows the kinds of a key, one below the other, and a choice for a further one. */
function keyControl(h, common, options, value, change) {
  const kinds = value.split('+')
  const isFull = kinds.length === MAX_KINDS || value === 'all'
  function set(place, kind) {
    const chosen = [...kinds]
    chosen[place] = kind
    change(kind === 'all' ? 'all' : chosen.filter((other) => other !== '').join('+'))
  }
  return h(
    'div',
    { className: 'rate-limit-rows' },
    (isFull ? kinds : [...kinds, '']).map((kind, place) => {
      const attributes = place === 0 ? common : { 'aria-label': `And by (${place + 1})` }
      const others = options.filter((option) => option.value !== 'all' && isFree(kinds, place, option.value))
      const offered = place === 0 ? options : [{ value: '', label: 'Nothing else' }, ...others]
      return kindControl(h, attributes, offered, kind, place, (changed) => set(place, changed))
    }),
  )
}

function isFree(kinds, place, kind) {
  return kind.endsWith(':') || !kinds.some((other, otherPlace) => otherPlace !== place && other === kind)
}

/** Shows one kind of a key: the choice, and the name of a header or cookie. */
function kindControl(h, attributes, options, kind, place, change) {
  const [chosen, name] = kind.includes(':') ? [`${kind.split(':', 1)}:`, kind.slice(kind.indexOf(':') + 1)] : [kind]
  const named = NAMED_KINDS[chosen]
  const number = place === 0 ? '' : ` (${place + 1})`
  return h(
    'div',
    { key: place, className: 'rate-limit-row' },
    choice(h, attributes, options, chosen, change),
    named
      ? h('input', {
          'aria-label': named.label + number,
          className: 'rate-limit-input rate-limit-code',
          placeholder: named.example,
          value: name,
          onChange: typed((text) => change(chosen + text.replace(/[+|]/g, ''))),
        })
      : null,
  )
}

function choice(h, common, options, value, change) {
  return h(
    'select',
    { ...common, className: 'rate-limit-input', value, onChange: typed(change) },
    options.map((option) => h('option', { key: option.value, value: option.value }, option.label)),
  )
}

/** Shows buttons that fill in usual expiries, from now on. */
function expiries(h, change) {
  const button = (label, set) =>
    h('button', { key: label, type: 'button', className: 'rate-limit-button rate-limit-preset', onClick: set }, label)
  return h(
    'div',
    { className: 'rate-limit-row', role: 'group', 'aria-label': 'Expires after' },
    EXPIRIES.map(({ label, ms }) => button(label, () => change(new Date(Date.now() + ms).toISOString()))),
    button('For ever', () => change(null)),
  )
}

/** Links to the row that has the value already. */
function otherRow(h, { resourceId }, recordId) {
  const href = new AdminJS.ViewHelpers().recordActionUrl({ resourceId, recordId, actionName: 'edit' })
  return h('a', { href, className: 'rate-limit-link rate-limit-other' }, 'Edit that one')
}

function toIso(text) {
  const moment = new Date(text)
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString()
}

/** Returns a moment as the browser's field accepts it, in the reader's time zone. */
function toLocal(value) {
  const moment = new Date(value || Number.NaN)
  if (Number.isNaN(moment.getTime())) return ''
  return new Date(moment.getTime() - moment.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16)
}

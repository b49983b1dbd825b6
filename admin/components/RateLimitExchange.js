/** Exports all rules and overrides as a file, and imports them: the changes are shown before they are applied. */
export default function RateLimitExchange() {
  const { createElement: h, useEffect, useState } = React
  const [text, setText] = useState('')
  const [keeps, setKeeps] = useState(false)
  const [answer, setAnswer] = useState()
  useEffect(() => {
    document.title = 'Import and export · Rate limits'
  }, [])
  const change = (setter) => (value) => {
    setter(value)
    setAnswer(undefined)
  }

  async function send(apply) {
    setAnswer(await ask({ method: 'post', data: { text, keep: keeps, apply } }))
  }

  async function download() {
    const { document: exported, problem } = await ask()
    if (problem !== undefined) return setAnswer({ problem })
    const link = document.createElement('a')
    link.href = `data:application/json;charset=utf-8,${encodeURIComponent(`${JSON.stringify(exported, null, 2)}\n`)}`
    link.download = 'rules.json'
    link.click()
  }

  const choose = async (event) => {
    const [file] = event.target.files
    if (file !== undefined) change(setText)(await file.text())
  }
  const lines = answer === undefined ? [] : linesFor(answer)
  const mayApply = REDUX_STATE.session?.rateLimitRights?.includes('writeOverrides') ?? true
  const canApply = answer?.result !== undefined && !answer.result.applied && lines.length > 0

  function button(label, disabled, apply) {
    const className = `rate-limit-button${apply ? ' rate-limit-primary' : ''}`
    return h('button', { type: 'button', className, disabled, onClick: () => send(apply) }, label)
  }

  return h(
    'div',
    null,
    h('div', { className: 'rate-limit-header' }, h('h1', null, 'Import and export')),
    h(
      'div',
      { className: 'rate-limit-card rate-limit-exchange' },
      h('p', null, 'One file holds all rules and all overrides that have not expired.'),
      h('button', { type: 'button', className: 'rate-limit-button', onClick: download }, 'Export rules.json'),
      h('h2', null, 'Import'),
      h('label', { htmlFor: 'rules-file' }, 'A file, or its text:'),
      h('input', { id: 'rules-file', type: 'file', accept: '.json,application/json', onChange: choose }),
      h('textarea', {
        'aria-label': 'Rules as JSON',
        rows: 10,
        value: text,
        spellCheck: false,
        className: 'rate-limit-input rate-limit-code',
        onChange: (event) => change(setText)(event.target.value),
      }),
      h(
        'label',
        { className: 'rate-limit-box' },
        h('input', { type: 'checkbox', checked: keeps, onChange: (event) => change(setKeeps)(event.target.checked) }),
        ' Keep rules and overrides that the file does not contain, instead of deleting them',
      ),
      h(
        'div',
        { className: 'rate-limit-row' },
        button('Show the difference', text === '', false),
        mayApply ? button('Import', !canApply, true) : null,
      ),
      h(
        'div',
        { role: 'status', 'aria-live': 'polite' },
        answer === undefined ? null : h('p', null, h('strong', null, headingFor(answer, lines))),
        h(
          'ul',
          { className: 'rate-limit-lines' },
          lines.map((line) => h('li', { key: line }, line)),
        ),
      ),
    ),
  )
}

async function ask(options) {
  try {
    const { data } = await new AdminJS.ApiClient().getPage({ pageName: 'exchange', ...options })
    // `RateLimitApiClient` answers with a notice where a request failed.
    return data.hasFailed ? { problem: data.notice.options.defaultValue } : data
  } catch (error) {
    const { denied, error: refusal } = error.response?.data ?? {}
    if (denied) return { problem: refusal }
    return { problem: 'The server does not answer, or you are signed out. Reload the page.' }
  }
}

function headingFor({ result, errors, problem }, lines) {
  if (problem !== undefined) return problem
  if (errors !== undefined) return 'The file cannot be imported:'
  if (result.applied) return lines.length === 0 ? 'Nothing had to change.' : 'Imported:'
  return lines.length === 0 ? 'No difference: the rules and overrides equal the file.' : 'The import would change this:'
}

function linesFor({ result, errors }) {
  if (errors !== undefined) return Object.entries(errors).map(([place, message]) => `${place}: ${message}`)
  if (result === undefined) return []
  const ruleName = ({ name }) => `rule ${name}`
  const nameOfOverride = ({ client, pathPattern }) =>
    `override ${client}${pathPattern === '' ? '' : ` for ${pathPattern}`}`
  const skipped = result.expired === 0 ? [] : [`${result.expired} override(s) of the file have expired: left out`]
  return [...sectionLines(result.rules, ruleName), ...sectionLines(result.overrides, nameOfOverride), ...skipped]
}

function sectionLines({ created, updated, deleted }, nameFor) {
  const shown = (value) => (value === null || value === '' ? '(none)' : String(value))
  const changesFor = ({ changes }) =>
    Object.entries(changes).map(([field, [before, after]]) => `${field}: ${shown(before)} → ${shown(after)}`)
  return [
    ...created.map((entry) => `new ${nameFor(entry)}`),
    ...updated.map((entry) => `${nameFor(entry)}: ${changesFor(entry).join(', ')}`),
    ...deleted.map((entry) => `deleted ${nameFor(entry)}`),
  ]
}

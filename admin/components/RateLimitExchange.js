/** Exports all rules and overrides as a file, and imports them: the changes are shown before they are applied. */
export default function RateLimitExchange() {
  const { createElement: h, useState } = React
  const { Box, Button, H2, H4 } = AdminJSDesignSystem
  const [text, setText] = useState('')
  const [keeps, setKeeps] = useState(false)
  const [answer, setAnswer] = useState()
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
  const canApply = answer?.result !== undefined && !answer.result.applied && lines.length > 0

  return h(
    Box,
    { variant: 'grey' },
    h(
      Box,
      { variant: 'white', className: 'rate-limit-exchange' },
      h(H2, { mb: 'xl' }, 'Import and export'),
      h('p', null, 'One file holds all rules and all overrides that have not expired.'),
      h(Button, { type: 'button', onClick: download }, 'Export rules.json'),
      h(H4, { mt: 'xxl' }, 'Import'),
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
        h(Button, { type: 'button', disabled: text === '', onClick: () => send(false) }, 'Show the difference'),
        h(Button, { type: 'button', variant: 'contained', disabled: !canApply, onClick: () => send(true) }, 'Import'),
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
    return (await new AdminJS.ApiClient().getPage({ pageName: 'exchange', ...options })).data
  } catch {
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

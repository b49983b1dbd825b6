/** Shows the actions of a row behind a button. Escape closes them, and so does leaving them. */
export default function PanelMenu({ record, onDone }) {
  const { createElement: h, useId, useRef, useState } = React
  const [isOpen, setOpen] = useState(false)
  const button = useRef(null)
  const id = useId()
  const { PanelAction } = AdminJS.UserComponents

  function pressed(event) {
    // An open dialog takes Escape for itself.
    if (event.key !== 'Escape' || event.target.closest('dialog') !== null) return
    setOpen(false)
    button.current.focus()
  }
  function left({ currentTarget, relatedTarget }) {
    // An open dialog is inside the menu, and would disappear with it.
    const asks = currentTarget.querySelector('dialog[open]') !== null
    if (!asks && !currentTarget.contains(relatedTarget)) setOpen(false)
  }
  function done(answer) {
    setOpen(false)
    onDone(answer)
  }
  return h(
    'div',
    { className: 'rate-limit-menu', onKeyDown: pressed, onBlur: left, onClick: (event) => event.stopPropagation() },
    h(
      'button',
      {
        ref: button,
        type: 'button',
        className: 'rate-limit-button rate-limit-quiet',
        'aria-expanded': isOpen,
        'aria-controls': id,
        'aria-label': `Actions: ${record.title}`,
        'data-testid': 'actions-dropdown',
        onClick: () => setOpen(!isOpen),
      },
      h('span', { 'aria-hidden': true }, '⋯'),
    ),
    h(
      'ul',
      { id, hidden: !isOpen },
      record.recordActions.map((action) =>
        h(
          'li',
          { key: action.name },
          h(PanelAction, { action, recordId: record.id, title: record.title, onDone: done, className: '' }),
        ),
      ),
    ),
  )
}

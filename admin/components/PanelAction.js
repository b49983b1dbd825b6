/**
 * Shows an action as a link where it has a page, and else as a button, which asks first where the action has a guard.
 * The browser's own dialog keeps the focus inside and closes on Escape.
 */
export default function PanelAction({ action, recordId, recordIds, title, onDone, className = 'rate-limit-button' }) {
  const { createElement: h, Fragment, useId, useRef } = React
  const { resourceId, name, label, guard, component } = action
  const { translateAction, translateMessage } = AdminJS.useTranslation()
  const respond = AdminJS.useActionResponseHandler((answer) => (answer.hasFailed ? undefined : onDone?.(answer)))
  const dialog = useRef(null)
  const [questionId, titleId] = [useId(), useId()]
  const text = translateAction(label, resourceId)
  const marks = { className, 'data-testid': `action-${name}` }

  if (component !== false) {
    const helpers = new AdminJS.ViewHelpers()
    const href =
      recordId === undefined
        ? helpers.resourceActionUrl({ resourceId, actionName: name })
        : helpers.recordActionUrl({ resourceId, recordId, actionName: name })
    return h(ReactRouterDOM.Link, { ...marks, to: href }, text)
  }

  const run = AdminJS.buildActionCallApiTrigger({
    action,
    params: { resourceId, recordId, recordIds },
    actionResponseHandler: respond,
  })
  function confirmed() {
    dialog.current.close()
    run()
  }
  const isFinal = guard !== undefined && guard !== null && guard !== ''
  return h(
    Fragment,
    null,
    h('button', { ...marks, type: 'button', onClick: isFinal ? () => dialog.current.showModal() : run }, text),
    isFinal &&
      h(
        'dialog',
        {
          ref: dialog,
          className: 'rate-limit-dialog',
          'aria-labelledby': questionId,
          'aria-describedby': titleId,
          onClick: stop,
        },
        title !== undefined && h('p', { id: titleId, className: 'rate-limit-note' }, title),
        h('h2', { id: questionId }, translateMessage(guard, resourceId, { count: recordIds?.length })),
        h(
          'div',
          { className: 'rate-limit-row' },
          h(
            'button',
            { type: 'button', className: 'rate-limit-button', onClick: () => dialog.current.close() },
            'Cancel',
          ),
          h('button', { type: 'button', className: 'rate-limit-button rate-limit-danger', onClick: confirmed }, text),
        ),
      ),
  )
}

/** Keeps a click in the dialog from opening the row around it. */
function stop(event) {
  event.stopPropagation()
}

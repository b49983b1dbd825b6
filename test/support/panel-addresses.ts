import type { PanelRoute } from './panel-app.js'

const RESOURCES = ['rules', 'overrides', 'changes', 'events', 'counters']
const ACTIONS = [
  'list',
  'show',
  'new',
  'edit',
  'delete',
  'bulkDelete',
  'search',
  'enable',
  'disable',
  'preview',
  'revert',
  'reset',
]

/** Addresses that reach a route, each with what could be behind it. */
export function addressesOf({ url }: PanelRoute): string[] {
  const resources = url.includes(':resourceId') ? RESOURCES : ['']
  const actions = /:action|\*/.test(url) ? ACTIONS : ['']
  return resources.flatMap((resource) =>
    actions.map((action) => {
      const path = url
        .replace(':resourceId', resource)
        .replace(':pageName', 'exchange')
        .replace(':query', 'secret')
        .replace(':action', action)
        .replace('*', `1/${action}`)
      return path.includes('/bulk/') ? `${path}?recordIds=1,2` : path
    }),
  )
}

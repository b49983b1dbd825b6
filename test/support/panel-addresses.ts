import type { PanelRoute } from './panel-app.js'

const RESOURCES = ['rules', 'overrides', 'events', 'counters', 'leaky-buckets']
const ACTIONS = ['list', 'show', 'new', 'edit', 'delete', 'bulkDelete', 'search', 'enable', 'disable']

/** Addresses that reach a route, each with what could be behind it. */
export function addressesOf({ url }: PanelRoute): string[] {
  const resources = url.includes(':resourceId') ? RESOURCES : ['']
  const actions = url.includes(':action') ? ACTIONS : ['']
  return resources.flatMap((resource) =>
    actions.map((action) => {
      const path = url
        .replace(':resourceId', resource)
        .replace(':pageName', 'exchange')
        .replace(':query', 'secret')
        .replace(':action', action)
        .replace(':recordId', '1')
      return path.includes('/bulk/') ? `${path}?recordIds=1,2` : path
    }),
  )
}

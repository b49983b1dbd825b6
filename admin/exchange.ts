import type { ActionRequest, AdminPage, PageContext } from 'adminjs'
import { errorMessage, RuleDocumentError } from '../src/ground/errors.js'
import type { SmartRateLimit } from '../src/plugin/smart-rate-limit.js'
import { importRight } from '../src/staff/shell/roles.js'
import { ActionDeniedError } from '../src/staff/shell/staff-errors.js'
import { hasRight } from './resources/actions.js'

/** Creates the page that exports all rules and overrides, and imports them after showing the difference. */
export function exchangePage({ rules }: SmartRateLimit): AdminPage {
  return {
    component: 'RateLimitExchange',
    icon: 'Repeat',
    handler: async ({ method, payload = {} }: ActionRequest, _response: unknown, context: PageContext) => {
      if (method !== 'post') return { document: await rules.export() }
      const { text, keep, apply } = payload
      try {
        const document: unknown = JSON.parse(String(text))
        if (apply === true) requireImport(document, context)
        return { result: await rules.import(document, { keep: keep === true, dryRun: apply !== true }) }
      } catch (error) {
        if (error instanceof RuleDocumentError) return { errors: error.errors }
        if (error instanceof SyntaxError) return { errors: { file: `is no JSON: ${errorMessage(error)}` } }
        throw error
      }
    },
  }
}

/** @throws ActionDeniedError when the file has what a role may not write */
function requireImport(document: unknown, context: PageContext): void {
  if (hasRight(context, importRight(document))) return
  throw new ActionDeniedError('Your role may not import this file.')
}

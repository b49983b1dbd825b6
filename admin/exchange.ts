import type { ActionRequest, AdminPage } from 'adminjs'
import type { SmartRateLimit } from '../src/app/smart-rate-limit.js'
import { errorMessage, RuleDocumentError } from '../src/errors.js'

/** Creates the page that exports all rules and overrides, and imports them after showing the difference. */
export function exchangePage({ rules }: SmartRateLimit): AdminPage {
  return {
    component: 'RateLimitExchange',
    icon: 'Repeat',
    handler: async ({ method, payload = {} }: ActionRequest) => {
      if (method !== 'post') return { document: await rules.export() }
      const { text, keep, apply } = payload
      try {
        const document: unknown = JSON.parse(String(text))
        return { result: await rules.import(document, { keep: keep === true, dryRun: apply !== true }) }
      } catch (error) {
        if (error instanceof RuleDocumentError) return { errors: error.errors }
        if (error instanceof SyntaxError) return { errors: { file: `is no JSON: ${errorMessage(error)}` } }
        throw error
      }
    },
  }
}

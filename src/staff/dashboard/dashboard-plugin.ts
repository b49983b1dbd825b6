import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { InvalidSettingError } from '../../ground/errors.js'
import { pluginParts } from '../../plugin/parts.js'
import { validateStaffOptions } from '../shell/staff-guard.js'
import type { DashboardOptions } from './register-dashboard.js'

/**
 * Registers the staff pages below its prefix: `dashboard/` is the first one. The pages of clients, events, rules,
 * overrides, changes, explanations, counters, usage, alerts and tokens are `dashboard/client.html`,
 * `dashboard/events.html` and so on; programs read `dashboard/clients.csv`, `dashboard/offenders.csv`,
 * `dashboard/usage.csv` and `dashboard/offender/?key=` (JSON). The guide of the dashboard lists all of them with their
 * parameters. Without `staff` and `isStaff` they refuse every request.
 *
 * @throws InvalidSettingError for an invalid or unknown option
 */
export const dashboardPlugin: FastifyPluginAsync<DashboardOptions> = fp(registerPages, {
  name: 'fastify-smart-ratelimit/dashboard',
  fastify: '5.x',
  dependencies: ['fastify-smart-ratelimit'],
  encapsulate: true,
})

async function registerPages(app: FastifyInstance, options: DashboardOptions): Promise<void> {
  validateDashboardOptions(options)
  const { staff, isStaff } = options
  const parts = pluginParts(app)
  if (staff === undefined && isStaff === undefined) {
    app.log.warn('dashboardPlugin has neither "staff" nor "isStaff": it refuses every request')
  }
  // The template engine and the contents of pages are loaded only by apps with pages.
  const { registerDashboard } = await import('./register-dashboard.js')
  await registerDashboard(app, parts, options)
}

function validateDashboardOptions(options: DashboardOptions): void {
  const { templates } = options
  validateStaffOptions('dashboardPlugin', options, ['templates'])
  if (templates !== undefined && typeof templates !== 'string') {
    throw new InvalidSettingError(`Option "templates" is ${String(templates)}: give the path of a folder`)
  }
}

/** `fastify-smart-ratelimit/dashboard`: the staff pages, and accounts for them. */
export { dashboardPlugin } from './staff/dashboard/dashboard-plugin.js'
export type { DashboardOptions } from './staff/dashboard/register-dashboard.js'
export type { StaffRole } from './staff/shell/roles.js'
export type { IsStaff, StaffOptions } from './staff/shell/staff-guard.js'
export type { StaffAnswer, StaffMember } from './staff/shell/staff-member.js'
export { hashPassword } from './staff/sign-in/passwords.js'
export {
  type StaffAccount,
  type StaffAccounts,
  type StaffAccountsOptions,
  type StaffCredentials,
  staffAccounts,
} from './staff/sign-in/staff-accounts.js'

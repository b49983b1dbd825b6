/** `fastify-smart-ratelimit/dashboard`: the staff pages, and accounts for them. */
export { dashboardPlugin } from './staff/dashboard/dashboard-plugin.js'
export type { DashboardOptions } from './staff/dashboard/register-dashboard.js'
export { hashPassword } from './staff/sign-in/passwords.js'
export type { StaffRole } from './staff/sign-in/roles.js'
export {
  type StaffAccount,
  type StaffAccounts,
  type StaffAccountsOptions,
  type StaffCredentials,
  staffAccounts,
} from './staff/sign-in/staff-accounts.js'
export type { IsStaff, StaffOptions } from './staff/sign-in/staff-guard.js'
export type { StaffAnswer, StaffMember } from './staff/sign-in/staff-member.js'

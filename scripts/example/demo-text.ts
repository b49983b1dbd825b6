/** The lines that a demo prints: what to open, as whom, and what else there is. */
import { sep } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import type { StaffRole } from '../../src/staff/shell/roles.js'

export const FIRST_LINE = 'Starting a shop with a week of invented traffic …'
export const API_PACKAGE = '@fastify/swagger'
export const METRICS_PACKAGE = 'prom-client'

const MAY: Readonly<Record<StaffRole, string>> = {
  admin: 'may do everything',
  operator: 'blocks and raises clients, enables and disables rules',
  viewer: 'only reads',
}

export interface RunningDemo {
  readonly origin: string
  readonly database: string
  readonly passwords: ReadonlyMap<StaffRole, string>
  /** The path of the panel; undefined where there is none. */
  readonly panel: string | undefined
  /** The API token; undefined where there is none. */
  readonly token: string | undefined
  readonly hasMetrics: boolean
}

export function demoLines({ origin, database, passwords, panel, token, hasMetrics }: RunningDemo): string[] {
  const missing = [...(token === undefined ? [API_PACKAGE] : []), ...(hasMetrics ? [] : [METRICS_PACKAGE])]
  return [
    'Four incidents go on. Sign in, and solve them:',
    '',
    `  Open      ${origin}/ratelimit/dashboard/`,
    ...[...passwords].map(([role, password]) => `  Sign in   ${role.padEnd(8)}  ${password}   ${MAY[role]}`),
    ...(panel === undefined ? [] : [`  Panel     ${origin}${panel}`]),
    token === undefined
      ? `  API       needs ${API_PACKAGE}`
      : `  API       curl -H 'authorization: Bearer ${token}' ${origin}/ratelimit/api/reports/incidents`,
    ...(token === undefined
      ? []
      : [
          `  Block     curl -H 'authorization: Bearer ${token}' --json '{"client":"203.0.113.0/24","effect":"deny","for":"2h"}' ${origin}/ratelimit/api/overrides`,
        ]),
    hasMetrics ? `  Metrics   curl ${origin}/metrics` : `  Metrics   need ${METRICS_PACKAGE}`,
    ...(missing.length === 0 ? [] : [`  To add    ${commandWith(missing)}`]),
    '  Alerts    come here, a line for each incident',
    `  End       Ctrl-C, which removes the database ${database}`,
  ]
}

/** Returns the command that adds packages to the demo. */
export function commandWith(packages: readonly string[]): string {
  // What npx has fetched is in a folder of its own, which installing something in this folder does not change.
  if (!PACKAGE_ROOT.includes(`${sep}_npx${sep}`)) return `npm install ${packages.join(' ')}`
  return `npx ${['fastify-smart-ratelimit', ...packages].map((name) => `-p ${name}`).join(' ')} fastify-smart-ratelimit demo`
}

/** The page of a network whose clients met thousands of rules. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logRows } from '../support/events.js'
import { long } from '../support/long.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const RULES = 6_000
const MET = 3_000

test('the page of a network lists a hundred of the policies, and is not quadratic in them', long(), async (t) => {
  const isStaff = () => ({ actor: 'vera', role: 'viewer' }) as const
  const { app, request, database, clock } = await startWithStaff(t, 'sqlite', { isStaff }, { useDynamicRules: true })
  const rules = Array.from({ length: RULES }, (_, index) => ({
    name: `r${index}`,
    pathPattern: `^/p${index}$`,
    rate: '1/h',
    group: index % 2 === 0 ? '' : 'other',
  }))
  await app.smartRateLimit.rules.import({ version: 1, rules })
  await app.smartRateLimit.rules.reload()
  await logRows(
    database,
    Array.from({ length: MET }, (_, index) => ({
      timestampMs: clock.now() - 1_000 - index,
      client: `ip:203.0.113.${index % 200}`,
      key: `rule:r${index}:203.0.113.${index % 200}`,
      clientIp: `203.0.113.${index % 200}`,
      ruleName: `r${index}`,
      policy: `r${index}`,
    })),
  )
  const page = () => request(`${DASHBOARD}client.html?client=ip%3A203.0.113.0%2F24`)
  const { text } = await page()
  assert.match(text, /And 2,900 more: the report of the API has all/)
  assert.equal(text.match(/Each client has its own/g)?.length, 100)
  const usage = process.cpuUsage()
  await page()
  const { user, system } = process.cpuUsage(usage)
  assert.ok(user + system < 1_000_000, `the page took ${user + system} µs`)
})

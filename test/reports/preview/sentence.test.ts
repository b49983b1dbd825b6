/** What a rule would have done, in one sentence. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PreviewUnknown, previewSentence } from '../../../src/reports/preview/report.js'

const UNKNOWN: readonly PreviewUnknown[] = []
const TOTALS = {
  events: 54_732,
  matched: 2_718,
  over_limit: 136,
  would_refuse: 136,
  over_limit_clients: 12,
  unsaid: 0,
  unsaid_matched: 0,
  unknown: UNKNOWN,
}
const NOTHING = { matched: 0, over_limit: 0, would_refuse: 0, over_limit_clients: 0 }
const AGENT = { rule: 'bots', field: "request.headers['user-agent']", lacks: 'log', requests: 24_401 } as const
const LIST = { rule: 'tor', field: "inList(client.ip, 'tor')", lacks: 'process', requests: 1 } as const

const CASES: readonly (readonly [changed: Partial<typeof TOTALS>, sentence: string, isFurther?: true])[] = [
  [{}, '2,718 of 54,732 requests matched; 5.0% of these would have been refused, from 12 clients.'],
  [
    { over_limit_clients: 1, over_limit: 2_718, would_refuse: 2_718 },
    '2,718 of 54,732 requests matched; 100% of these would have been refused, from 1 client.',
  ],
  [
    { would_refuse: 0 },
    '2,718 of 54,732 requests matched; 5.0% of these would be refused without block: false, from 12 clients.',
  ],
  [
    { over_limit: 0, would_refuse: 0, over_limit_clients: 0 },
    '2,718 of 54,732 requests matched; none of these would have been refused.',
  ],
  [{}, '2,718 of 54,732 requests matched; 5.0% of these would have been refused in addition, from 12 clients.', true],
  [
    { over_limit: 0, would_refuse: 0, over_limit_clients: 0 },
    '2,718 of 54,732 requests matched; none of these would have been refused in addition.',
    true,
  ],
  [{ events: 1, matched: 0 }, 'The only request did not match.'],
  [
    { ...NOTHING, events: 24_401, unsaid: 24_401, unknown: [AGENT] },
    `Nothing can be said about any of 24,401 requests: rule "bots" reads request.headers['user-agent'], which the log does not have.`,
  ],
  [
    { ...NOTHING, events: 24_402, unsaid: 24_401, unknown: [AGENT] },
    `Nothing can be said about 24,401 of 24,402 requests: rule "bots" reads request.headers['user-agent'], which the log does not have. The other request did not match.`,
  ],
  [
    { ...NOTHING, events: 30_000, unsaid: 24_402, unknown: [AGENT, LIST] },
    `Nothing can be said about 24,402 of 30,000 requests: rule "bots" reads request.headers['user-agent'], which the log does not have (24,401); rule "tor" reads inList(client.ip, 'tor'), which this process does not know (1). None of the 5,598 other requests matched.`,
  ],
  [
    {
      events: 100,
      matched: 60,
      unsaid: 50,
      unsaid_matched: 40,
      over_limit: 5,
      unknown: [{ rule: 'api', field: 'header:x-key', lacks: 'log', requests: 50 }],
    },
    'Nothing can be said about 50 of 100 requests: rule "api" reads header:x-key, which the log does not have. 20 of the 50 other requests matched; 25.0% of these would have been refused, from 12 clients.',
  ],
  [
    { ...NOTHING, events: 1, unsaid: 1, unknown: [LIST] },
    `Nothing can be said about the only request: rule "tor" reads inList(client.ip, 'tor'), which this process does not know.`,
  ],
  [{ events: 0, matched: 0 }, 'The log has no requests in this time.'],
]

for (const [changed, sentence, isFurther = false] of CASES) {
  test(sentence, () => assert.equal(previewSentence({ ...TOTALS, ...changed }, isFurther), sentence))
}

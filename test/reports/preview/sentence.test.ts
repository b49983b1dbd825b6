/** What a rule would have done, in one sentence. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { previewSentence } from '../../../src/reports/preview/report.js'

const TOTALS = { events: 54_732, matched: 2_718, over_limit: 136, would_refuse: 136, over_limit_clients: 12 }

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
  [{ events: 0, matched: 0 }, 'The log has no requests in this time.'],
]

for (const [changed, sentence, isFurther = false] of CASES) {
  test(sentence, () => assert.equal(previewSentence({ ...TOTALS, ...changed }, isFurther), sentence))
}

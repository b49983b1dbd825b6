import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Options, parseOptions } from '../../scripts/commands/support/options.js'
import { UsageError } from '../../scripts/commands/support/usage-error.js'

const OPTIONS = {
  days: { type: 'integer', of: 'days', min: 1, max: 365, default: 7, help: 'how far back' },
  threshold: { type: 'integer', of: 'requests', min: 0, max: 100, help: 'how many' },
  schema: { type: 'text', help: 'which schema' },
  'dry-run': { type: 'flag', help: 'only look' },
} as const satisfies Options

const RANGE = 'give a whole number of days, 1 to 365'

describe('the options of a command', () => {
  test('have their defaults', () => {
    assert.deepEqual(parseOptions(OPTIONS, []), {
      values: { days: 7, threshold: undefined, schema: undefined, 'dry-run': false, json: false, help: false },
      json: false,
      help: false,
    })
  })

  test('are read in both spellings, the last one winning', () => {
    const { values, json } = parseOptions(OPTIONS, [
      '--days',
      '1',
      '--days=365',
      '--json',
      '--schema',
      's',
      '--dry-run',
    ])
    assert.deepEqual([values.days, values.schema, values['dry-run'], json], [365, 's', true, true])
  })

  test('operands are taken in their order, between the options, and have to be there', () => {
    const options = { ...OPTIONS, from: { type: 'operand', help: 'a' }, to: { type: 'operand', help: 'b' } } as const
    const { values } = parseOptions(options, ['-', '--dry-run', '--', '--days'])
    assert.deepEqual([values.from, values.to, values['dry-run']], ['-', '--days', true])
    assert.throws(() => parseOptions(options, ['a']), { message: 'no to given' })
    assert.throws(() => parseOptions(options, ['a', 'b', 'c']), { message: 'unexpected argument "c"' })
    assert.throws(() => parseOptions(options, ['--from=a', 'b']), { message: 'unknown option "--from"' })
    assert.equal(parseOptions(options, ['--help']).help, true)
  })

  for (const [args, complaint] of [
    [['--days', '0'], `--days is "0": ${RANGE}`],
    [['--days', '-1'], `--days is "-1": ${RANGE}`],
    [['--days=-1'], `--days is "-1": ${RANGE}`],
    [['--days', '366'], `--days is "366": ${RANGE}`],
    [['--days', '99999999999999999999'], `--days is "99999999999999999999": ${RANGE}`],
    [['--days', 'abc'], `--days is "abc": ${RANGE}`],
    [['--days', '1e2'], `--days is "1e2": ${RANGE}`],
    [['--days', '7.5'], `--days is "7.5": ${RANGE}`],
    [['--days', ' 7'], `--days is " 7": ${RANGE}`],
    [['--days='], `--days is "": ${RANGE}`],
    [['--days'], `--days has no value: ${RANGE}`],
    [['--days', '--dry-run'], `--days is "--dry-run": ${RANGE}`],
    [['--schema'], '--schema has no value: give a text'],
    [['--dry-run=yes'], '--dry-run takes no value: give --dry-run alone'],
    [['--dry-rum'], 'unknown option "--dry-rum": did you mean "--dry-run"?'],
    [['--no-dry-run'], 'unknown option "--no-dry-run"'],
    [['--constructor'], 'unknown option "--constructor"'],
    [['--__proto__=1'], 'unknown option "--__proto__"'],
    [['-x'], 'unknown option "-x"'],
    [['7'], 'unexpected argument "7"'],
    [['--', '--days'], 'unexpected argument "--days"'],
  ] as const) {
    test(`${args.join(' ')} is wrong usage`, () => {
      assert.throws(
        () => parseOptions(OPTIONS, args),
        (error) => error instanceof UsageError && error.message === complaint,
      )
    })
  }

  test('are not looked at when help is asked for', () => {
    for (const args of [['--days', 'abc', '--help'], ['-h'], ['--nonsense', '-h']]) {
      assert.equal(parseOptions(OPTIONS, args).help, true)
    }
  })
})

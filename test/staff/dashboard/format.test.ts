import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  formatBar,
  formatCount,
  formatRate,
  formatTime,
  spanWords,
  visible,
} from '../../../src/staff/dashboard/format.js'

test('counts have separators', () => {
  assert.equal(formatCount(0), '0')
  assert.equal(formatCount(1_234_567), '1,234,567')
})

test('a rate has one decimal, and looks like nothing or all only when it is', () => {
  const rates: readonly [rate: number, shown: string][] = [
    [0, '0%'],
    [0.00001, '<0.1%'],
    [0.001, '0.1%'],
    [1 / 3, '33.3%'],
    [0.5, '50.0%'],
    [0.999, '99.9%'],
    [0.99999, '>99.9%'],
    [1, '100%'],
  ]
  for (const [rate, shown] of rates) assert.equal(formatRate(rate), shown)
})

test('a bar is as long as its share, and what is not nothing can be seen', () => {
  assert.equal(formatBar(0, 10), 0)
  assert.equal(formatBar(1, 10_000), 1)
  assert.equal(formatBar(5, 10), 50)
  assert.equal(formatBar(10, 10), 100)
  assert.equal(formatBar(0, 0), 0)
})

test('times are in UTC', () => {
  assert.equal(formatTime(Date.UTC(2026, 0, 15, 12, 3, 4, 567)), '2026-01-15 12:03:04')
})

test('a length of time is in the largest unit of which it has two, and never in more than one', () => {
  const lengths: readonly [ms: number, words: string][] = [
    [0, '0 seconds'],
    [1_000, '1 second'],
    [119_999, '120 seconds'],
    [120_000, '2 minutes'],
    [12 * 60_000, '12 minutes'],
    [86_400_000, '24 hours'],
    [3 * 86_400_000, '3 days'],
  ]
  for (const [ms, words] of lengths) assert.equal(spanWords(ms), words)
})

test('characters that hide in a text, or turn it around, are spelled out', () => {
  assert.equal(visible('ip:203.0.113.7'), 'ip:203.0.113.7')
  assert.equal(visible('naïve ключ 鍵 😀'), 'naïve ключ 鍵 😀')
  assert.equal(visible('a\u202egnp.exe'), 'a\\u{202e}gnp.exe')
  assert.equal(visible('a\nb\u0007c\u200bd\ud800'), 'a\\u{a}b\\u{7}c\\u{200b}d\\u{d800}')
})

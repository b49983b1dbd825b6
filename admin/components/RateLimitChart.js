/** What a rule would do with the requests that it matches, in the order of the bars' parts. */
const OUTCOMES = [
  ['allowed', 'Within the limit'],
  ['would-block', 'Over the limit, let through'],
  ['blocked', 'Refused'],
]

/** Draws a chart of hours: all lengths are in percent, so that it fits any width. */
export default function RateLimitChart({ chart }) {
  const { createElement: h } = React
  const part = (bar) => (segment) =>
    h('rect', {
      key: segment.outcome,
      className: `part ${segment.outcome}`,
      x: `${bar.x}%`,
      y: `${segment.y}%`,
      width: `${bar.width}%`,
      height: `${segment.length}%`,
    })

  const drawn = new Set(chart.bars.flatMap(({ segments }) => segments.map(({ outcome }) => outcome)))
  const legend = OUTCOMES.filter(([outcome]) => drawn.has(outcome)).map(([outcome, name]) =>
    h(
      'li',
      { key: outcome },
      h(
        'svg',
        { 'aria-hidden': true, width: 10, height: 10 },
        h('rect', { className: `part ${outcome}`, width: '100%', height: '100%', rx: 2 }),
      ),
      name,
    ),
  )
  const picture = h(
    'svg',
    { className: 'rate-limit-chart', role: 'img', 'aria-label': chart.description },
    h(
      'svg',
      { width: '100%', height: '130', overflow: 'visible' },
      chart.lines.flatMap(({ y, label }) => [
        h('line', { key: `line ${y}`, x1: '0', x2: '100%', y1: `${y}%`, y2: `${y}%`, className: 'line' }),
        h('text', { key: `text ${y}`, x: '-8', y: `${y}%`, dy: '4', textAnchor: 'end', className: 'axis' }, label),
      ]),
      chart.bars.map((bar) =>
        h(
          'g',
          { key: bar.time },
          h(
            'title',
            null,
            `${bar.time} UTC: ${bar.requests} matched, ${bar.blocked} refused, ${bar.would_block} over the limit`,
          ),
          h('rect', { x: `${bar.x}%`, width: `${bar.width}%`, height: '100%', fill: 'transparent' }),
          bar.segments.map(part(bar)),
        ),
      ),
    ),
    chart.labels.map(({ x, anchor, text, minor }) =>
      h(
        'text',
        { key: text, x: `${x}%`, y: '150', textAnchor: anchor, className: minor ? 'axis minor' : 'axis' },
        text,
      ),
    ),
  )
  return h(React.Fragment, null, h('ul', { className: 'rate-limit-legend' }, legend), picture)
}

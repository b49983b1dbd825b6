/** The reporter of Node's test runner in a process of tests: it tells the runner of `run-tests.ts` of every test. */
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'
import { END_OF_FILE, type Message } from './messages.js'

/** The names of the running test and of the suites around it. Tests of a process run one after the other. */
const running: string[] = []

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const message = messageOf(event)
    if (message !== undefined) process.send?.(message)
    const complaint = complaintOf(event)
    if (complaint !== undefined) yield `✖ ${complaint}\n`
  }
}

/** Returns what was thrown after its test had ended, for which the process ends with status 1. */
function complaintOf({ type, data }: TestEvent): string | undefined {
  return type === 'test:diagnostic' && /^(?:Error|Warning): /.test(data.message) ? data.message : undefined
}

function messageOf({ type, data }: TestEvent): Message | undefined {
  if (type === 'test:dequeue') {
    running.splice(data.nesting, Number.POSITIVE_INFINITY, data.name)
    return { type: 'started', name: running.join(' › ') }
  }
  if (type !== 'test:pass' && type !== 'test:fail') return undefined
  if (data.name === END_OF_FILE) return { type: 'file ended' }
  const { details, skip, todo, nesting } = data
  const failure = type === 'test:fail' && todo === undefined ? data.details.error : undefined
  const isOfSubtest = failure !== undefined && Reflect.get(failure, 'failureType') === 'subtestsFailed'
  return {
    type: 'ended',
    outcome: {
      name: [...running.slice(0, nesting), data.name].join(' › '),
      isSuite: details.type === 'suite',
      ms: details.duration_ms,
      ...(skip === undefined || skip === false ? {} : { skip: String(skip) }),
      ...(failure === undefined || isOfSubtest ? {} : { error: inspect(failure.cause ?? failure) }),
    },
  }
}

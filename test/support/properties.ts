/** Properties of random values, of which a failed one prints less than a kilobyte: the runner of tests prints it twice. */
import fc from 'fast-check'
import { errorMessage } from '../../src/ground/errors.js'

const MOST_OF_VALUE = 300
const MOST_OF_MESSAGE = 300
const FRAMES = 2

fc.configureGlobal({
  reporter(details) {
    if (!details.failed) return
    const { counterexample, counterexamplePath, errorInstance, numRuns, seed } = details
    // Nothing was refuted: too few values passed the filters, or time was up.
    if (counterexample === null) throw new Error(fc.defaultReportMessage(details))
    const message = [
      `Property failed after ${numRuns} runs: { seed: ${seed}, path: "${counterexamplePath}", endOnFailure: true } repeats it`,
      `Counterexample: ${shortened(fc.stringify(counterexample), MOST_OF_VALUE)}`,
      shortened(errorMessage(errorInstance), MOST_OF_MESSAGE),
    ].join('\n')
    const failure = new Error(message)
    failure.stack = [`Error: ${message}`, ...framesOf(errorInstance)].join('\n')
    throw failure
  },
})

function framesOf(error: unknown): string[] {
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : []
  return lines
    .filter((line) => /^\s+at .*(?:file:|[\\/])/.test(line) && !/node_modules|node:/.test(line))
    .slice(0, FRAMES)
}

/** Leaves out the middle of a text that is too long: what is wrong is often at its end. */
function shortened(text: string, most: number): string {
  if (text.length <= most) return text
  const half = Math.floor(most / 2)
  return `${text.slice(0, half)} … (${text.length - 2 * half} characters) … ${text.slice(-half)}`
}

export { fc }

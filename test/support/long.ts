/** Why `npm test` leaves long tests out, or `false` where they are run. */
export const longLeftOut: string | false = process.env.TEST_LONG === '0' && 'it takes long: npm run test:all'

/**
 * The options of a test that takes seconds: `npm test` leaves it out, and `npm run test:all` runs it, with all other tests
 * of its file. What takes half a minute on a quiet machine takes several minutes on a busy one.
 *
 * @param missing why it cannot be run at all, or `false`
 */
export function long(missing: string | false = false): { readonly skip: string | false; readonly timeout: number } {
  return { skip: missing || longLeftOut, timeout: 600_000 }
}

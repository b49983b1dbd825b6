/**
 * Whole numbers that the database has as BigInt, which is no JSON, as Prisma's result extension takes them: all are far
 * below 2^53.
 */
export function asNumbers<const Name extends string>(...names: Name[]) {
  const computed = names.map((name) => {
    return [name, { needs: { [name]: true }, compute: (row: Record<string, unknown>) => Number(row[name]) }]
  })
  // A loop over the names makes one computed field for each of them, which no type can follow.
  return Object.fromEntries(computed) as {
    readonly [Each in Name]: {
      needs: { [Needed in Each]: true }
      compute: (row: { [Needed in Each]: number | bigint }) => number
    }
  }
}

const ADMISSION = ['checkedMs', 'asked', 'cost', 'admitted'] as const

export const bucketNumbers = asNumbers('periodMs', 'drainLimit', 'used', 'fraction', ...ADMISSION)

export const slidingWindowNumbers = asNumbers(
  'periodMs',
  'cellStartMs',
  'previousCount',
  'currentCount',
  'limit',
  ...ADMISSION,
)

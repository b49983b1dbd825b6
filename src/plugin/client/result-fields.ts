/**
 * Returns the result extension of Prisma that converts BigInt columns, which JSON lacks, to numbers: all are far below
 * 2^53.
 */
export function asNumbers<const Name extends string>(...names: Name[]) {
  const computed = names.map((name) => {
    return [name, { needs: { [name]: true }, compute: (row: Record<string, unknown>) => Number(row[name]) }]
  })
  // The loop creates one computed field per name, which types cannot express.
  return Object.fromEntries(computed) as {
    readonly [Each in Name]: {
      needs: { [Needed in Each]: true }
      compute: (row: { [Needed in Each]: number | bigint }) => number
    }
  }
}

/** Makes the windows of a counter a text on both databases: PostgreSQL has an array of BigInt, empty for none. */
export const windowsAsText = {
  windows: {
    needs: { windows: true },
    compute: ({ windows }: { windows: string | null | readonly bigint[] }) =>
      Array.isArray(windows) ? windows.join(',') || null : windows,
  },
} as const

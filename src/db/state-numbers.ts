/**
 * The whole numbers of the limiter's tables, as Prisma's result extension takes them: the database has them as BigInt,
 * which is no JSON, and all are far below 2^53.
 */

export const bucketNumbers = {
  periodMs: { needs: { periodMs: true }, compute: ({ periodMs }: { periodMs: bigint }) => Number(periodMs) },
  drainLimit: { needs: { drainLimit: true }, compute: ({ drainLimit }: { drainLimit: bigint }) => Number(drainLimit) },
  used: { needs: { used: true }, compute: ({ used }: { used: bigint }) => Number(used) },
  fraction: { needs: { fraction: true }, compute: ({ fraction }: { fraction: bigint }) => Number(fraction) },
  checkedMs: { needs: { checkedMs: true }, compute: ({ checkedMs }: { checkedMs: bigint }) => Number(checkedMs) },
  asked: { needs: { asked: true }, compute: ({ asked }: { asked: bigint }) => Number(asked) },
  cost: { needs: { cost: true }, compute: ({ cost }: { cost: bigint }) => Number(cost) },
  admitted: { needs: { admitted: true }, compute: ({ admitted }: { admitted: bigint }) => Number(admitted) },
} as const

export const slidingWindowNumbers = {
  periodMs: { needs: { periodMs: true }, compute: ({ periodMs }: { periodMs: bigint }) => Number(periodMs) },
  cellStartMs: {
    needs: { cellStartMs: true },
    compute: ({ cellStartMs }: { cellStartMs: bigint }) => Number(cellStartMs),
  },
  previousCount: {
    needs: { previousCount: true },
    compute: ({ previousCount }: { previousCount: bigint }) => Number(previousCount),
  },
  currentCount: {
    needs: { currentCount: true },
    compute: ({ currentCount }: { currentCount: bigint }) => Number(currentCount),
  },
  limit: { needs: { limit: true }, compute: ({ limit }: { limit: bigint }) => Number(limit) },
  checkedMs: { needs: { checkedMs: true }, compute: ({ checkedMs }: { checkedMs: bigint }) => Number(checkedMs) },
  asked: { needs: { asked: true }, compute: ({ asked }: { asked: bigint }) => Number(asked) },
  cost: { needs: { cost: true }, compute: ({ cost }: { cost: bigint }) => Number(cost) },
  admitted: { needs: { admitted: true }, compute: ({ admitted }: { admitted: bigint }) => Number(admitted) },
} as const

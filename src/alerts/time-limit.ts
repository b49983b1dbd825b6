/**
 * Waits for work of an external system, within a time limit.
 *
 * @param who the subject of the error's message
 */
export async function inTime<T>(work: Promise<T>, timeoutMs: number, who: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${who} did not answer within ${timeoutMs / 1_000} s`)), timeoutMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The functions of a host that samples call. */
export { rateLimitPlugin } from 'fastify-smart-ratelimit'

export async function handler(): Promise<string> {
  return 'ok'
}

/** A measure of a query. */
export function complexityOf(body: unknown): number {
  return JSON.stringify(body).length
}

export function answerTo(message: unknown): string {
  return String(message)
}

export async function exportOrders(months: number): Promise<readonly number[]> {
  return Array.from({ length: months }, (_, month) => month)
}

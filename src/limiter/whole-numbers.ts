/**
 * `a * b / c` for whole numbers whose product may exceed 2^53 (a limit times a period reaches 2^66). Exact as long as
 * the result is below 2^53.
 */

/** Returns the quotient, rounded down. */
export function productQuotient(a: number, b: number, c: number): number {
  const product = a * b
  if (product > Number.MAX_SAFE_INTEGER) return Number((BigInt(a) * BigInt(b)) / BigInt(c))
  // The division rounds, at worst up to the next whole number.
  const quotient = Math.floor(product / c)
  return quotient * c > product ? quotient - 1 : quotient
}

/** Returns the remainder of the division. */
export function productRemainder(a: number, b: number, c: number): number {
  const product = a * b
  if (product > Number.MAX_SAFE_INTEGER) return Number((BigInt(a) * BigInt(b)) % BigInt(c))
  // The subtraction is many times as fast as %, which is no machine instruction for numbers of this size.
  return product - productQuotient(a, b, c) * c
}

/** Returns the quotient, rounded up. */
export function productQuotientUp(a: number, b: number, c: number): number {
  return productQuotient(a, b, c) + (productRemainder(a, b, c) > 0 ? 1 : 0)
}

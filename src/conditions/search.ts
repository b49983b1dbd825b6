import type { Budget } from './values.js'

/** For shorter parts, and up to this product of lengths, the engine's search is quick, whatever the texts are. */
const SHORT = 8
const QUICK = 4_096

/** Returns whether a text contains another one, in linear time: the engine's search may take the product of lengths. */
export function containsText(text: string, part: string, budget: Budget): boolean {
  if (part.length <= SHORT || text.length * part.length <= QUICK) return text.includes(part)
  budget.spend(part.length)
  return part.length <= text.length && searchLinearly(text, part)
}

/** Searches as Knuth, Morris and Pratt do (1977): no character of the text is looked at again. */
function searchLinearly(text: string, part: string): boolean {
  const borders = new Uint32Array(part.length)
  for (let index = 1, length = 0; index < part.length; index++) {
    while (length > 0 && part[index] !== part[length]) length = borders[length - 1] ?? 0
    if (part[index] === part[length]) length++
    borders[index] = length
  }
  let matched = 0
  for (let index = 0; index < text.length; index++) {
    while (matched > 0 && text[index] !== part[matched]) matched = borders[matched - 1] ?? 0
    if (text[index] === part[matched]) matched++
    if (matched === part.length) return true
  }
  return false
}

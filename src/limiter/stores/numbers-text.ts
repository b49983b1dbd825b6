/** Reads the windows of a counter from a text of whole numbers, as SQL stores and Redis have it. */

/** Returns the numbers of each window. */
export function splitNumbers(numbers: readonly number[], size: number, start = 0): number[][] {
  const windows: number[][] = []
  for (let index = start; index < numbers.length; index += size) windows.push(numbers.slice(index, index + size))
  return windows
}

const [BLANK, COMMA, MINUS, ZERO, NINE, BAR] = [32, 44, 45, 48, 57, 124]

/** Reads whole numbers with commas, blanks or bars between. Several times as fast as to split the text. */
export function readNumbers(text: string): number[] {
  const numbers: number[] = []
  let [number, sign] = [0, 1]
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code >= ZERO && code <= NINE) {
      number = number * 10 + code - ZERO
    } else if (code === COMMA || code === BLANK || code === BAR) {
      numbers.push(sign * number)
      number = 0
      sign = 1
    } else if (code === MINUS) {
      sign = -1
    }
  }
  numbers.push(sign * number)
  return numbers
}

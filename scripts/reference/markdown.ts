/** Returns a value as inline code. */
export function code(text: string): string {
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``
}

/** Returns a text that Markdown, and the templates of a site, take as text; what is between backticks stays code. */
export function prose(text: string): string {
  return text
    .split(/(`[^`]*`)/)
    .map((part, index) =>
      index % 2 === 1 ? part : part.replaceAll('<', '&lt;').replaceAll('{{', '&#123;{').replaceAll('*', '\\*'),
    )
    .join('')
}

/** Returns a table. Its cells are Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}

/** Returns a page with a note on its source. */
export function page(title: string, source: string, parts: readonly string[]): string {
  const note = `<!-- Generated from ${source}: change that instead. -->`
  return `${[`# ${title}`, note, ...parts].filter((part) => part !== '').join('\n\n')}\n`
}

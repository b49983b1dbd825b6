import Handlebars from 'handlebars'

/** Matches a moment in a sentence, as the pages write it. */
const MOMENT = /(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}) UTC/g

/** Escapes a sentence, and marks up its moments, which `live.js` turns into the reader's time zone. */
export function markMoments(sentence: unknown): Handlebars.SafeString {
  const escaped = Handlebars.escapeExpression(String(sentence ?? ''))
  return new Handlebars.SafeString(
    escaped.replace(MOMENT, (moment, day: string, time: string) => `<time datetime="${day}T${time}Z">${moment}</time>`),
  )
}

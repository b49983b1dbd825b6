/** The colours of all pictures. They have a background, since a page may be dark while the browser prefers light. */
export const PICTURE_STYLE = `
  svg { color-scheme: light dark; font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .ground { fill: #ffffff; stroke: #d0d7de } .title { fill: #1f2328; font-size: 16px; font-weight: 600 }
  text { fill: #1f2328 } .tick { fill: #59636e } line { stroke: #d0d7de }
  .ours { fill: #0969da } .other { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d } text, .title { fill: #f0f6fc } .tick { fill: #9198a1 }
    line { stroke: #3d444d } .ours { fill: #4493f8 } .other { fill: #656c76 }
  }
`

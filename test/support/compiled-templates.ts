/**
 * Compiles every template once in a process. Each app compiles the templates of its pages, which takes longer than all
 * else that most tests of pages do.
 */
import { Handlebars } from '../../src/generated/handlebars.js'

const { create, precompile } = Handlebars
const templates = new Map<string, TemplateSpecification>()

function compiled(input: string, options: CompileOptions): TemplateSpecification {
  const key = JSON.stringify([input, options])
  const spec = templates.get(key) ?? new Function(`return ${precompile(input, options)}`)()
  templates.set(key, spec)
  return spec
}

Object.assign(Handlebars, {
  create() {
    const engine = create()
    return Object.assign(engine, {
      compile: (input: string, options: CompileOptions = {}) => engine.template(compiled(input, { ...options })),
    })
  },
})

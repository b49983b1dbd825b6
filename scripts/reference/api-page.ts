import { openApiDocument } from '../openapi/document.js'
import { code, page, prose, table } from './markdown.js'

/** The parts of a JSON Schema that are shown. */
interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly default?: unknown
  readonly description?: string
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>
}

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly parameters?: readonly {
    name: string
    in: string
    required?: boolean
    description?: string
    schema: Schema
  }[]
  readonly requestBody?: Content
  readonly responses: Readonly<Record<string, Content & { readonly description: string }>>
}

interface Document {
  readonly info: { readonly description: string }
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

function schemaName(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

/** Returns a schema as a short type, `integer, 1 to 1000` or a list of `Rule`. */
function typeText(schema: Schema): string {
  if (schema.$ref !== undefined) return `[${schemaName(schema.$ref)}](#${schemaName(schema.$ref).toLowerCase()})`
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeText).join(' or ')
  if (schema.enum !== undefined) return schema.enum.map((value) => code(JSON.stringify(value))).join(', ')
  if (schema.type === 'array') return `list of ${schema.items === undefined ? 'any' : typeText(schema.items)}`
  return [schema.format ?? [schema.type ?? 'any'].flat().join(' or '), rangeText(schema)]
    .filter((part) => part !== '')
    .join(', ')
}

function rangeText({ type, minimum, maximum, minLength, maxLength }: Schema): string {
  const [least, most, unit] = type === 'string' ? [minLength, maxLength, ' characters'] : [minimum, maximum, '']
  if (least !== undefined && most !== undefined) return `${least} to ${most}${unit}`
  if (most !== undefined) return `at most ${most}${unit}`
  return least === undefined ? '' : `at least ${least}${unit}`
}

function defaultText({ default: value }: Schema): string {
  return value === undefined ? '' : code(JSON.stringify(value))
}

/** Returns the fields of an object, and below them those of its objects, by their paths. */
function fieldRows(schema: Schema, before = ''): string[][] {
  const properties = Object.entries(schema.properties ?? {})
  return properties.flatMap(([name, field]) => {
    const path = `${before}${name}`
    const row = [
      code(path),
      typeText(field),
      schema.required?.includes(name) ? 'yes' : '',
      defaultText(field),
      prose(field.description ?? ''),
    ]
    const inner = field.items ?? field
    return [row, ...fieldRows(inner, `${path}${field.items === undefined ? '' : '[]'}.`)]
  })
}

function fieldTable(schema: Schema): string {
  return table(['Field', 'Type', 'Required', 'Default', 'Meaning'], fieldRows(schema))
}

/** Returns the paragraphs of a body: the name of its schema, or its fields. */
function bodyParts(title: string, { content = {} }: Content): string[] {
  return Object.entries(content).flatMap(([type, { schema }]) => {
    const line = `${title} (${code(type)})`
    return schema.properties === undefined ? [`${line}: ${typeText(schema)}`] : [`${line}:`, fieldTable(schema)]
  })
}

function describe(method: string, path: string, operation: Operation): string[] {
  const { summary, operationId, description, parameters = [], requestBody, responses } = operation
  const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'))
  return [
    `### ${method.toUpperCase()} ${path}`,
    prose(`${summary} (\`${operationId}\`). ${description ?? ''}`.trim()),
    parameters.length === 0
      ? ''
      : table(
          ['Parameter', 'In', 'Type', 'Required', 'Default', 'Meaning'],
          parameters.map(({ name, in: location, required, schema, description: meaning }) => [
            code(name),
            location,
            typeText(schema),
            required ? 'yes' : '',
            defaultText(schema),
            prose(meaning ?? ''),
          ]),
        ),
    ...(requestBody === undefined ? [] : bodyParts('Body', requestBody)),
    table(
      ['Status', 'Answer'],
      Object.entries(responses).map(([status, answer]) => [status, prose(answer.description)]),
    ),
    ...successes.flatMap(([status, answer]) => bodyParts(`Answer ${status}`, answer)),
  ]
}

/** Describes every operation of the API. */
export async function apiPage(): Promise<string> {
  return documentPage('API', await openApiDocument('api'), '`apiPlugin`')
}

/** Describes checks over HTTP. */
export async function checksPage(): Promise<string> {
  return documentPage('Checks over HTTP', await openApiDocument('check'), '`checkPlugin`')
}

function documentPage(title: string, document: object, plugin: string): string {
  // The check `npm run lint:openapi` proves that the document is one of OpenAPI.
  const { info, tags, paths, components } = document as Document
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
  return page(title, 'the OpenAPI document', [
    prose(info.description),
    `Paths are relative to the mount of ${plugin}. The OpenAPI document is at \`openapi.json\` below it.`,
    ...tags.flatMap(({ name, description }) => [
      `## ${name}`,
      prose(description),
      ...operations
        .filter(({ operation }) => operation.tags.includes(name))
        .flatMap(({ method, path, operation }) => describe(method, path, operation)),
    ]),
    '## Schemas',
    ...Object.entries(components.schemas).flatMap(([name, schema]) => [
      `### ${name}`,
      prose(schema.description ?? ''),
      fieldTable(schema),
    ]),
  ])
}

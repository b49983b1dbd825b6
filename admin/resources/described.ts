/** Derives the panel's pages for rules and overrides from the fields of their tables. */
import type { LayoutElement, PropertyOptions, ResourceOptions } from 'adminjs'
import type { Description, Field } from '../../src/rules/description.js'
import { filterByText, MOMENT, only } from './fields.js'

/** The fields below one heading of a form. */
interface FieldGroup {
  readonly title?: string
  readonly fields: readonly string[]
  /** Whether every field has a default, so that most rows leave the group as it is. */
  readonly isOptional?: boolean
}

/** The fields of a table, as its pages use them. */
interface DescribedFields {
  /** The fields in the order of the form: by groups, with check boxes at the end. */
  readonly edited: string[]
  readonly listed: string[]
  readonly sortable: string[]
  readonly searched: string[]
  readonly properties: NonNullable<ResourceOptions['properties']>
  readonly titles: Readonly<Record<string, string>>
  /** The form with a heading over each group, for the host's own AdminJS. */
  readonly layout: LayoutElement[]
  /** The groups of the panel's form. */
  readonly groups: FieldGroup[]
}

export function describedFields(description: Description): DescribedFields {
  const fields = Object.entries(description.fields)
  const groups = [...new Set(fields.map(([, { panel }]) => panel.group))]
  const inForm = groups.map((group) => {
    const own = fields.filter(([, { panel }]) => panel.group === group)
    const isBox = ([, { kind }]: (typeof own)[number]) => kind === 'boolean'
    return { group, names: [...own.filter((each) => !isBox(each)), ...own.filter(isBox)].map(([name]) => name) }
  })
  const namesWith = (has: (panel: Field['panel']) => unknown) => {
    return fields.flatMap(([name, { panel }]) => (has(panel) ? [name] : []))
  }
  const searched = namesWith((panel) => panel.searched)
  const inTitles = searched.map((name) => description.fields[name]?.panel.title.toLowerCase() ?? name)
  return {
    edited: inForm.flatMap(({ names }) => names),
    listed: namesWith(({ column }) => column),
    sortable: namesWith(({ column }) => column === 'sorted'),
    searched,
    properties: {
      id: only(),
      search: {
        ...only('filter'),
        ...filterByText(`In ${new Intl.ListFormat('en-GB').format(inTitles)}.`),
      },
      ...Object.fromEntries(fields.map(([name, described]) => [name, toProperty(described)])),
      createdAt: { ...only('show'), ...MOMENT },
      updatedAt: { ...only('show'), ...MOMENT },
    },
    titles: {
      ...Object.fromEntries(fields.map(([name, { panel }]) => [name, panel.title])),
      search: 'Search',
      createdAt: 'Created',
      updatedAt: 'Changed',
    },
    groups: inForm.map(({ group, names }) => ({
      ...(group !== undefined && { title: group }),
      fields: names,
      isOptional: names.every((name) => description.fields[name]?.default !== undefined),
    })),
    layout: inForm.flatMap(({ group, names }, place): LayoutElement[] => {
      return group === undefined ? names : [heading(group, place > 0), ...names]
    }),
  }
}

/** Returns a heading in a form. */
export function heading(text: string, isApart = true): LayoutElement {
  return ['@H4', { children: text, ...(isApart ? { mt: 'xl' } : {}) }]
}

function toProperty(described: Field): PropertyOptions {
  const { kind, about, help = about, panel, default: initial } = described
  const { input, example, label, options } = panel
  return {
    custom: { kind: input, help, example, label, options, initial },
    ...(options === undefined ? {} : { props: { choices: options } }),
    components: {
      ...(kind === 'moment' ? MOMENT.components : {}),
      ...(kind === 'boolean' || kind === 'integer' ? { list: 'RateLimitInList' } : {}),
      edit: 'RateLimitField',
      filter: options === undefined && kind !== 'boolean' ? 'RateLimitField' : 'RateLimitSelect',
    },
  }
}

/** Derives the panel's tables of rules and overrides from their fields. */
import type { PropertyOptions, ResourceOptions } from 'adminjs'
import type { Field } from '../../src/ground/field.js'
import type { Description } from '../../src/rules/description.js'

/** Returns the options of a resource that follow from the fields, and the names of its editable and sortable fields. */
export function describedFields(description: Description) {
  const fields = Object.entries(description.fields)
  const edited = fields.map(([name]) => name)
  // AdminJS shows the first columns only on a narrow screen: those that are edited in the list come second.
  const [first = '', ...others] = fields.flatMap(([name, { panel }]) => (panel.column === undefined ? [] : [name]))
  const columns = [first, ...others.toSorted((one, other) => Number(isInList(other)) - Number(isInList(one)))]

  function isInList(name: string): boolean {
    return description.fields[name]?.kind === 'boolean' || description.fields[name]?.kind === 'integer'
  }

  const options = {
    listProperties: columns,
    editProperties: edited,
    showProperties: [...edited, 'createdAt', 'updatedAt'],
    properties: Object.fromEntries(fields.map(([name, field]) => [name, toProperty(field)])),
  } satisfies ResourceOptions
  return {
    edited,
    sortable: fields.flatMap(([name, { panel }]) => (panel.column === 'sorted' ? [name] : [])),
    options,
    titles: {
      ...Object.fromEntries(fields.map(([name, { panel }]) => [name, panel.title])),
      createdAt: 'Created',
      updatedAt: 'Changed',
    },
  }
}

function toProperty({ kind, about, help = about, panel }: Field): PropertyOptions {
  const { input, options } = panel
  return {
    description: help,
    ...(input === 'lines' && { type: 'textarea' }),
    ...(input === 'select' && options !== undefined && { availableValues: [...options] }),
    ...((kind === 'boolean' || kind === 'integer') && { components: { list: 'RateLimitInList' } }),
  }
}

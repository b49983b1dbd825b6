import type { BrandingOptions } from 'adminjs'

/** The colours of AdminJS's theme, by the variables of `templates/shell.css`, which follow the browser's preference. */
const COLOURS = {
  border: '--line',
  text: '--text',
  primary100: '--accent',
  primary80: '--accent',
  primary60: '--accent',
  primary40: '--line',
  primary20: '--track',
  accent: '--accent',
  grey100: '--text',
  grey80: '--text',
  grey60: '--faint',
  grey40: '--field',
  grey20: '--track',
  white: '--card',
  black: '--text',
  errorDark: '--blocked',
  error: '--blocked',
  errorLight: '--blocked-tint',
  successDark: '--allowed',
  success: '--allowed',
  successLight: '--allowed-tint',
  warningDark: '--warning',
  warning: '--warning',
  warningLight: '--warning-tint',
  infoDark: '--accent',
  info: '--accent',
  infoLight: '--track',
  bg: '--page',
  filterBg: '--card',
  container: '--card',
  sidebar: '--card',
  inputBorder: '--field',
  separator: '--line',
  highlight: '--track',
  love: '--accent',
} as const

/**
 * The theme of the panel. AdminJS's buttons, inputs, check boxes, table rows and menus compute shades of their colours
 * and fail at variables: the components of this package replace all of them.
 */
export const THEME: NonNullable<BrandingOptions['theme']> = {
  colors: Object.fromEntries(Object.entries(COLOURS).map(([name, variable]) => [name, `var(${variable})`])),
  borders: {
    input: '1px solid var(--field)',
    filterInput: '1px solid var(--field)',
    bg: '1px solid var(--page)',
    default: '1px solid var(--line)',
  },
}

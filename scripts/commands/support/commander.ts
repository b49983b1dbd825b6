import type * as Commander from '@commander-js/extra-typings'
import { loadModule } from '../../../src/ground/package-root.js'

/** Required, since an import of a CommonJS module reads it twice, which takes a tenth of the time of `--help`. */
export const { Command, CommanderError, Help, InvalidArgumentError, Option } = loadModule(
  'commander',
) as typeof Commander

import { alerts } from './alerts.js'
import { cleanup } from './cleanup.js'
import { hashPassword } from './hash-password.js'
import { health } from './health.js'
import { migrate } from './migrate.js'
import { overrideAdd } from './override-add.js'
import { overrideList } from './override-list.js'
import { overrideRemove } from './override-remove.js'
import { preview } from './preview.js'
import { pruneEvents } from './prune-events.js'
import { reloadRules } from './reload-rules.js'
import { rulesExport } from './rules-export.js'
import { rulesImport } from './rules-import.js'
import type { Command } from './support/command.js'
import { verifyRollupsCommand } from './verify-rollups.js'

/** All there are, in the order the help lists them. */
export const COMMANDS: readonly Command[] = [
  alerts,
  cleanup,
  hashPassword,
  health,
  migrate,
  overrideAdd,
  overrideList,
  overrideRemove,
  preview,
  pruneEvents,
  reloadRules,
  rulesExport,
  rulesImport,
  verifyRollupsCommand,
]

/** The functions that statements of this store call in SQLite. */
import type { SqliteFunctions } from '../../../database/sqlite-functions.js'
import { createAdvance, LISTED_FORMS, SETTLE_WINDOW, settleWindow } from '../listed-counter.js'

export const SQLITE_FUNCTIONS: SqliteFunctions = {
  module: 'src/limiter/stores/sql/sqlite-functions',
  register(database) {
    for (const [name, form] of Object.entries(LISTED_FORMS)) database.function(name, createAdvance(form))
    database.function(SETTLE_WINDOW, settleWindow)
  },
}

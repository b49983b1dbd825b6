/** Writes rules.schema.json, which ships with the package, from the definition of the document. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../src/ground/package-root.js'
import { documentSchema } from '../src/rules/exchange/rule-document.js'

writeFileSync(join(PACKAGE_ROOT, 'rules.schema.json'), `${JSON.stringify(documentSchema(), null, 2)}\n`)

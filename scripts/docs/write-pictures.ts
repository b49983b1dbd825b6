import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { drawPictures } from './pictures.js'

for (const [path, svg] of drawPictures(PACKAGE_ROOT)) writeFileSync(join(PACKAGE_ROOT, path), svg)

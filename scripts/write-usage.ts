import { readFileSync, writeFileSync } from 'node:fs'
import { withManual } from '../src/cli/help.ts'

// Writes the commands into the page of the manual about them.
const page = new URL('../docs/usage.md', import.meta.url)
writeFileSync(page, withManual(readFileSync(page, 'utf8')))

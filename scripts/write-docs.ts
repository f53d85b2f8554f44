import { readFileSync, writeFileSync } from 'node:fs'
import { withManual } from '../src/cli/help.ts'
import { schemaText } from '../src/config/schema.ts'
import { featureSchemas } from '../src/features/settings.ts'
import { withConfiguration } from './chart-schema.ts'
import { capacityDocument } from './performance/capacity-page.ts'
import { performanceDocuments } from './performance/page.ts'
import { withSettings } from './settings-tables.ts'

// Writes what is generated from the code: the JSON Schema of the configuration that is published for editors, the tables of
// settings, the commands with their help, and the configuration in the schema of the Helm chart. And of the results of
// benchmarks, the pages about performance, with its plots, and about capacity.
const fileAt = (path: string): URL => new URL(`../${path}`, import.meta.url)
const rewrite = (path: string, change: (page: string) => string): void =>
  writeFileSync(fileAt(path), change(readFileSync(fileAt(path), 'utf8')))

rewrite('gateway.schema.json', () => schemaText(featureSchemas))
rewrite('docs/usage.md', withManual)
rewrite('docs/configuration.md', withSettings)
rewrite('deploy/helm/gatehouse/values.schema.json', (page) =>
  withConfiguration(page, schemaText(featureSchemas)),
)
for (const [path, text] of performanceDocuments()) writeFileSync(fileAt(path), text)
writeFileSync(fileAt('docs/capacity.md'), capacityDocument())

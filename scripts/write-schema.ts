import { writeFileSync } from 'node:fs'
import { schemaText } from '../src/config/schema.ts'
import { featureSchemas } from '../src/features/settings.ts'

// Writes the JSON Schema of the configuration that is published for editors.
writeFileSync(new URL('../gateway.schema.json', import.meta.url), schemaText(featureSchemas))

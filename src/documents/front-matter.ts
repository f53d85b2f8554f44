import { dayOf, needsOf, specUrl, specVersion } from './dashdash.ts'
import { endpointsOf } from './endpoints.ts'
import type { ServerDescription } from './portrait.ts'
import { oneLine } from './text.ts'
import { toYaml, type Yaml } from './yaml.ts'

/** The front matter of the documents for agents: YAML between two lines of dashes. */
export function frontMatter(description: ServerDescription): string {
  const { links, install, emoji, contentVersion, changedAt } = description
  const [endpoint, ...others] = Object.values(endpointsOf(description))
  const found: Readonly<Record<string, Yaml | undefined>> = {
    name: description.name,
    description: description.description,
    'spec-url': specUrl,
    'spec-version': specVersion,
    'access-level': description.accessLevel,
    'cli-url': links.cli ?? 'none',
    'api-url': links.api ?? 'none',
    'web-url': links.web ?? 'none',
    'mcp-url': endpoint === undefined ? 'none' : others.length > 0 ? [endpoint, ...others] : endpoint,
    install: Object.keys(install).length > 0 ? install : undefined,
    requires: needsOf(description),
    invocation: { 'model-invocable': true, 'user-invocable': true },
    homepage: links.homepage,
    repository: links.repository,
    'status-page': links.statusPage,
    'content-version': contentVersion === '' ? undefined : contentVersion,
    'last-updated': changedAt === undefined ? undefined : dayOf(changedAt),
    emoji,
  }
  return fenced(found)
}

/** Front matter of the members that are known; the description stands on several lines unless it is to be on one. */
export function fenced(
  members: Readonly<Record<string, Yaml | undefined>>,
  folded: readonly string[] = ['description'],
): string {
  const known: Record<string, Yaml> = {}
  for (const [key, value] of Object.entries(members)) if (value !== undefined) known[key] = tidy(value)
  return `---\n${toYaml(known, folded)}---\n`
}

/** The same with every text on one line, without what can not be seen. */
function tidy(value: Yaml): Yaml {
  if (typeof value === 'boolean') return value
  if (typeof value === 'string') return oneLine(value)
  if (Array.isArray(value)) return value.map(oneLine)
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [oneLine(key), tidy(each)]))
}

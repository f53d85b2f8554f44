import { basename, sep } from 'node:path'
import type { Variables } from './variables.ts'
import { variableName } from './variables.ts'

/** What the variables in a client's configuration stand for. */
export interface TextContext {
  readonly workspace: string
  readonly inputs: ReadonlyMap<string, string>
  readonly variables: Variables
  readonly note: (text: string) => void
}

/** Rewrites the `${…}` forms of Claude Code, Cursor and VS Code into those of the gateway's configuration. */
export function convertText(text: string, context: TextContext): string {
  return text.replaceAll(/\$\{([^}]*)\}?/g, (whole: string, body: string) => converted(whole, body, context))
}

function converted(whole: string, body: string, { workspace, inputs, variables, note }: TextContext): string {
  const [, name, fallback] = /^(?:env:)?([A-Za-z_]\w*)(:-.*)?$/s.exec(body) ?? []
  const known = places(workspace)[body]
  if (known !== undefined) return known
  if (name !== undefined && whole.endsWith('}')) {
    if (fallback === undefined) variables.refer(name, 'the client’s configuration refers to it')
    return `\${${name}${fallback ?? ''}}`
  }
  if (body.startsWith('input:')) {
    const id = body.slice('input:'.length)
    const input = variableName(id)
    variables.refer(input, inputs.get(id) || `what the editor asks for as ${JSON.stringify(id)}`)
    return `\${${input}}`
  }
  note(`${JSON.stringify(whole)} means nothing here and was kept as plain text`)
  return `$${whole}`
}

function places(workspace: string): Readonly<Record<string, string>> {
  return {
    workspaceFolder: workspace,
    workspaceFolderBasename: basename(workspace),
    cwd: workspace,
    userHome: '${HOME}',
    pathSeparator: sep,
    '/': sep,
  }
}

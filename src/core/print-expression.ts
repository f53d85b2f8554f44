import type { Expression, Value } from './expression.ts'
import { printPath } from './path.ts'

/** An expression as text, which reads as the same expression. */
export function printExpression({ tool, arguments: given, find: wanted }: Expression): string {
  const listed = [...given].map(([name, value]) => `${printName(name)}=${printValue(value)}`)
  const end = wanted ? ` -> ${printPath(wanted)}` : ''
  return `${printName(tool)}(${listed.join(', ')})${end}`
}

/** Whether a name needs no quotes: of a tool or an argument. */
function isPlainName(text: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_./-]*$/u.test(text)
}

function printName(name: string): string {
  return isPlainName(name) ? name : JSON.stringify(name)
}

function printValue(value: Value): string {
  if (value.kind === 'literal') return JSON.stringify(value.value)
  if (value.kind === 'path') return printPath(value.path)
  if (value.kind === 'list') return `[${value.items.map(printValue).join(', ')}]`
  const members = [...value.members].map(([key, each]) => `${JSON.stringify(key)}: ${printValue(each)}`)
  return `{${members.join(', ')}}`
}

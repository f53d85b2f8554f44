import { verbOf } from '../catalog/classify.ts'
import { isPlainName } from '../core/alias.ts'
import { isObject } from '../core/json.ts'
import type { Assertion } from './assertion.ts'
import type { AuditedTool, Subject } from './subject.ts'
import { each, notApplicable, ownersToSay, pass } from './verdict.ts'

const NONE = 'it has no tools'

/** What the server says of each of its tools, besides schemas. */
export const tools: readonly Assertion[] = [
  {
    id: 'C119',
    level: 'must',
    text: 'Tools are named in lower-case words joined by underscores, at most 64 characters.',
    fix: 'Rename the tool, such as get_sum for get-sum.',
    check: ({ tools: all }) =>
      each(all, NONE, ({ name, definition }) => {
        if (typeof definition.name !== 'string') return ['a tool without a name']
        return isPlainName(name) ? [] : [name]
      }),
  },
  {
    id: 'C120',
    level: 'must',
    text: 'Each tool is described: what it is for, and what harm it can do.',
    fix: 'Write a sentence on what it does and when to use it; where it destroys something, say so.',
    check: ({ tools: all }) => each(all, NONE, descriptionProblems),
  },
  {
    id: 'C122',
    level: 'should',
    text: 'Each tool has a title for people.',
    fix: 'Add a title.',
    check: ({ tools: all }) => each(all, NONE, ({ name, definition }) => (titleOf(definition) ? [] : [name])),
  },
  {
    id: 'C123',
    level: 'should',
    text: 'A tool that answers with structured content has an output schema.',
    fix: 'Add an outputSchema.',
    check: ({ tools: all }) => {
      if (all.length === 0) return notApplicable(NONE)
      const without = all.filter(({ definition }) => !isObject(definition.outputSchema))
      if (without.length === 0) return pass(`${all.length} looked at`)
      return ownersToSay(`whether these answer with structured content: ${namesOf(without)}`)
    },
  },
  {
    id: 'C124',
    level: 'may',
    text: 'Annotations, icons and execution have the form the protocol gives them.',
    fix: 'Make hints true or false, icons a list of objects with src, taskSupport one of its three words.',
    check: ({ tools: all }) => {
      const using = all.filter(({ definition: { annotations, icons, execution } }) =>
        [annotations, icons, execution].some((found) => found !== undefined),
      )
      return each(using, 'no tool uses them', formProblems)
    },
  },
  {
    id: 'C133',
    level: 'must',
    text: 'A tool that changes something says what it changes, and does not claim to only read.',
    fix: 'Name the effect in the description, and correct readOnlyHint.',
    check: (subject) => {
      const changing = subject.tools.filter((tool) => isChanging(tool, subject))
      return each(changing, 'no tool changes anything', (tool) => effectProblems(tool, subject))
    },
  },
  {
    id: 'C143',
    level: 'should',
    text: 'A tool that only reads says so with readOnlyHint: true.',
    fix: 'Set annotations.readOnlyHint to true.',
    check: (subject) => {
      const reading = subject.tools.filter(
        ({ name, classification: { op } }) => (verbOf(name, subject.upstream)?.op ?? op) === 'read',
      )
      return each(reading, 'no tool only reads', ({ name, definition }) => {
        const { readOnlyHint } = hintsOf(definition)
        return readOnlyHint === true
          ? []
          : [`${name}: readOnlyHint is ${JSON.stringify(readOnlyHint) ?? 'absent'}`]
      })
    },
  },
  {
    id: 'C174',
    level: 'must',
    text: 'The form of the results of each tool is documented and does not change from call to call.',
    fix: 'Add an outputSchema, or describe the form of the text.',
    check: ({ tools: all }) => {
      if (all.length === 0) return notApplicable(NONE)
      const without = all.filter(({ definition }) => !isObject(definition.outputSchema))
      if (without.length === 0) return pass('each tool has an outputSchema')
      return ownersToSay(`what the results of these look like: ${namesOf(without)}`)
    },
  },
]

const TASK_SUPPORT_VALUES: ReadonlySet<unknown> = new Set(['forbidden', 'optional', 'required'])
/** Fewer characters can not say what a tool is for. */
const MIN_DESCRIPTION_LENGTH = 20
const WARNING =
  /delet|remov|destr|drop|eras|wip|purg|overwrit|replac|truncat|permanent|irrevers|undone|undo|danger|caution|warning|risk|reset|revok|terminat/i
const STEMS =
  'creat|add|append|writ|sav|stor|send|post|publish|insert|upload|updat|chang|edit|sett?|modif|patch|renam|mov|copi?|assign|delet|remov|destroy|dropp?|eras|overwrit|replac|merg|toggl|enabl|disabl|start|stopp?|trigger|runn?|execut|register|grant|revok|restor|archiv|lock|invit|comment|subscrib|transfer|reset|simulat|terminat'
const EFFECT = new RegExp(
  `\\b(?:${STEMS})(?:e|es|y|ies|ied|s|ed|d|ing|ion|ions|ation|al|ten)?\\b|side effect`,
  'i',
)

function descriptionProblems({ name, definition: { description }, classification }: AuditedTool): string[] {
  if (typeof description !== 'string' || description.trim() === '') return [`${name}: no description`]
  if (description.trim().length < MIN_DESCRIPTION_LENGTH)
    return [`${name}: says no more than "${description.trim()}"`]
  if (classification.risk === 'destructive' && !WARNING.test(description)) {
    return [`${name}: destroys something (${classification.evidence[0] ?? ''}) and does not warn of it`]
  }
  return []
}

/** Whether its name says that it changes something; where the name says nothing, whether it does not deny it. */
function isChanging(
  { name, definition, classification: { op } }: AuditedTool,
  { upstream }: Subject,
): boolean {
  const verb = verbOf(name, upstream)
  if (verb) return verb.op !== 'read'
  return op !== 'read' && hintsOf(definition).readOnlyHint !== true
}

function effectProblems({ name, definition }: AuditedTool, { upstream }: Subject): string[] {
  const { readOnlyHint } = hintsOf(definition)
  const verb = verbOf(name, upstream)
  const said = typeof definition.description === 'string' ? definition.description : ''
  const isTold = EFFECT.test(said)
  if (readOnlyHint !== true) return isTold ? [] : [`${name}: its description names no effect`]
  // What opens or links something may well only read.
  const isDenied = verb !== undefined && (verb.op !== 'write' || isTold)
  return isDenied ? [`${name}: claims readOnlyHint: true, yet its name begins with "${verb.verb}"`] : []
}

function formProblems({ name, definition: { annotations, icons, execution } }: AuditedTool): string[] {
  const problems: string[] = []
  if (annotations !== undefined && !isObject(annotations)) problems.push(`${name}: annotations are no object`)
  for (const [key, value] of Object.entries(isObject(annotations) ? annotations : {})) {
    if (key.endsWith('Hint') && typeof value !== 'boolean') problems.push(`${name}: ${key} is no boolean`)
  }
  const isIcons =
    Array.isArray(icons) && icons.every((icon) => isObject(icon) && typeof icon.src === 'string')
  if (icons !== undefined && !isIcons) problems.push(`${name}: icons are no list of objects with src`)
  const support = isObject(execution) ? execution.taskSupport : undefined
  if (support !== undefined && !TASK_SUPPORT_VALUES.has(support)) {
    problems.push(`${name}: taskSupport is ${JSON.stringify(support)}`)
  }
  return problems
}

function titleOf(definition: AuditedTool['definition']): string | undefined {
  const found = definition.title ?? hintsOf(definition).title
  return typeof found === 'string' && found.trim() !== '' ? found : undefined
}

function hintsOf({ annotations }: AuditedTool['definition']): Readonly<Record<string, unknown>> {
  return isObject(annotations) ? annotations : {}
}

function namesOf(all: readonly AuditedTool[]): string {
  return all.map(({ name }) => name).join(', ')
}

/** Assertions about the server as a whole. */
import { tasksExtension } from '../core/revisions.ts'
import { isObject } from '../core/json/json.ts'
import { method } from '../protocol/methods.ts'
import { errorText, type ListMethod } from './asking.ts'
import { type Assertion, fail, notApplicable, pass, unless, type Subject } from './subject.ts'

/** The maximum number of entries on one page. */
const LONG_PAGE = 200

/** Assertions about the capabilities and lists of a server. */
export const server: readonly Assertion[] = [
  {
    id: 'C008',
    level: 'must',
    text: 'Everything that is offered is declared as a capability.',
    fix: 'Declare the capability, or stop serving its methods.',
    check: (subject) =>
      unless(
        [...subject.lists]
          .filter(([name, { items }]) => !isDeclared(subject, name) && items.length > 0)
          .map(([name]) => `${name}: has entries, but capability ${capabilityOf(name)} is not declared`),
        `declared: ${Object.keys(subject.capabilities).join(', ') || 'nothing'}`,
      ),
  },
  {
    id: 'C021',
    level: 'must',
    text: 'The server reports its version as a semantic version.',
    fix: 'Set serverInfo.version to a version such as 1.4.0.',
    check: ({ serverInfo: { version } }) =>
      typeof version === 'string' && SEMVER.test(version)
        ? pass(`version ${version}`)
        : fail(version === undefined ? 'no version' : `version ${JSON.stringify(version)}`),
  },
  {
    id: 'C062',
    level: 'forbidden',
    text: 'The URL of the server contains no secret.',
    fix: 'Send it in a header: see token and headers of the upstream.',
    check: ({ settings: { reach } }) => {
      if (reach.kind === 'command') return notApplicable('it is started as a child process')
      return unless(secretsIn(reach.url), 'no parameter that looks like a secret')
    },
  },
  {
    id: 'C087',
    level: 'must',
    text: 'Each declared capability is implemented.',
    fix: 'Implement the methods of the capability, or stop declaring it.',
    check: (subject) =>
      unless(
        [...subject.lists].flatMap(([name, { error }]) =>
          error && isDeclared(subject, name) && !isOptional(name) ? [`${name}: ${errorText(error)}`] : [],
        ),
        'each declared list was read',
      ),
  },
  {
    id: 'C088',
    level: 'must',
    text: 'A server with tools declares the capability tools.',
    fix: 'Declare the capability tools.',
    check: (subject) => {
      if (isDeclared(subject, 'tools/list')) return pass('declared')
      return subject.tools.length > 0
        ? fail(`${subject.tools.length} tools`)
        : notApplicable('it has no tools')
    },
  },
  {
    id: 'C089',
    level: 'should',
    text: 'The server declares the logging capability.',
    fix: 'Declare the capability logging.',
    check: ({ capabilities }) =>
      isObject(capabilities.logging) ? pass('declared') : fail('logging is not declared'),
  },
  {
    id: 'C097',
    level: 'may',
    text: 'Resource templates and subscriptions are implemented if declared.',
    check: (subject) => {
      const { resources } = subject.capabilities
      if (!isObject(resources)) return notApplicable('resources are not declared')
      const error = subject.lists.get('resources/templates/list')?.error
      const templates = error ? 'no templates' : `${subject.templates.length} templates`
      return pass(templates, resources.subscribe === true ? 'subscriptions declared' : 'no subscriptions')
    },
  },
  {
    id: 'C100',
    level: 'must',
    text: 'An unknown method is answered with -32601.',
    fix: 'Respond with a JSON-RPC error with code -32601.',
    check: ({ unknownMethod: { error } }) => {
      if (!error) return fail('it answered an unknown method with a result')
      return error.rpc === -32601 ? pass('answered with -32601') : fail(errorText(error))
    },
  },
  {
    id: 'C102',
    level: 'must',
    text: 'Long lists are paginated.',
    fix: `Return at most ${LONG_PAGE} entries per page, and a nextCursor.`,
    check: ({ lists }) =>
      unless(
        [...lists].flatMap(([name, { pages }]) =>
          pages.some((size) => size > LONG_PAGE)
            ? [`${name}: ${Math.max(...pages)} entries on one page`]
            : [],
        ),
        pagesOf(lists),
      ),
  },
  {
    id: 'C105',
    level: 'must',
    text: 'The order of a list is stable over all its pages.',
    fix: 'Sort the entries before pagination.',
    check: ({ lists }) =>
      unless(
        [...lists].flatMap(([name, { isStable }]) => (isStable ? [] : [`${name}: two reads differ`])),
        'each list was read twice',
      ),
  },
  {
    id: 'C118',
    level: 'forbidden',
    text: 'Tasks are declared only if they are implemented.',
    fix: 'Stop declaring tasks, or mark a tool with execution.taskSupport.',
    check: (subject) => checkTasks(subject),
  },
]

function checkTasks({ capabilities, tools, taskList }: Subject) {
  const { tasks, extensions } = capabilities
  const takers = tools.filter(({ definition: { execution } }) => isObject(execution) && runsAsTask(execution))
  if (isObject(extensions) && extensions[tasksExtension] !== undefined) {
    return pass('declared as an extension; the server decides per call')
  }
  if (!isObject(tasks)) {
    if (takers.length === 0) return notApplicable('it has no tasks')
    return fail(...takers.map(({ name }) => `${name}: runs as a task, but tasks are not declared`))
  }
  const isForTools = isObject(tasks.requests) && tasks.requests.tools !== undefined
  return unless(
    [
      ...(taskList?.error ? [`tasks/list: ${errorText(taskList.error)}`] : []),
      ...(isForTools && takers.length === 0 ? ['no tool has taskSupport'] : []),
    ],
    `${takers.length} tools can run as tasks`,
  )
}

function runsAsTask({ taskSupport }: Readonly<Record<string, unknown>>): boolean {
  return taskSupport === 'required' || taskSupport === 'optional'
}

function isDeclared({ capabilities }: Subject, name: ListMethod): boolean {
  return isObject(capabilities[capabilityOf(name)])
}

function capabilityOf(name: ListMethod): string {
  return method(name).capability ?? ''
}

/** Templates are optional for a server with resources. */
function isOptional(name: ListMethod): boolean {
  return name === 'resources/templates/list'
}

function pagesOf(lists: Subject['lists']): string {
  return [...lists]
    .filter(([, { pages }]) => pages.length > 0)
    .map(([name, { items, pages }]) => `${name}: ${items.length} on ${pages.length} pages`)
    .join(', ')
}

/** The parameter names in a URL that look like secrets; never their values. */
function secretsIn(address: string): string[] {
  const { searchParams, username, password } = new URL(address)
  const named = [...searchParams.keys()]
    .filter((key) => SECRET.test(key))
    .map((key) => `the query contains ${key}`)
  return [
    ...named,
    ...(username !== '' || password !== '' ? ['a user name or password before the host'] : []),
  ]
}

const SEMVER = /^\d+\.\d+\.\d+(?:-[\w.-]+)?(?:\+[\w.-]+)?$/
const SECRET = /token|key|secret|passw|pwd|auth|credential|signature|session|jwt|^sig$/i

/**
 * Calls a tool that may change something in a sandbox, where nothing has to be undone. Invariant: no call is made with an
 * argument that looks like a place outside of the sandbox.
 */
import { randomUUID } from 'node:crypto'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { outsideOf, type Sandbox } from '../prove/sandbox.ts'
import { trialsOf } from '../prove/trials.ts'
import { type Case, casesOf } from './cases.ts'
import { type Example, judgeExamples } from './examples.ts'
import type { CheckContext } from './session.ts'
import { answerIn, judgeAll, judgeCase, paramsOf, type Tried } from './tool-test.ts'

interface Context extends CheckContext {
  readonly revision: string
  readonly seed: number
  readonly examples: readonly Example[]
}

/** The maximum number of cases of one tool. */
const MAX_CASES = 40
/** After so many calls without a response in time, the rest of the calls of a tool is left out. */
const MAX_SILENT = 2

/** Tests one tool, or reports why it is not called. @throws ServerLost */
export async function testInSandbox(tool: Descriptor, sandbox: Sandbox, context: Context): Promise<void> {
  const { results, session, seed, examples } = context
  const subject = `tool/${tool.name}`
  const leaveOut = (message: string): void =>
    results.add('results', subject, `${subject}/calls`, { status: 'skipped', message })
  const isExecuting = tool.classification.op === 'execute'
  if (isExecuting && examples.length === 0)
    return leaveOut(
      'not called: it runs what its caller writes: give examples of the tool in the configuration',
    )
  const given = examples.map(({ input }) => input)
  const trials = trialsOf(tool.definition, { sandbox, given: undefined, examples: given })
  if ('problem' in trials) {
    const advice = trials.isArgumentNeeded ? ': give examples of the tool in the configuration' : ''
    return leaveOut(`not called: ${trials.problem}${advice}`)
  }
  // Not a text that shows that a hostile one was executed.
  const { arguments: first } = trials.make(`sandbox-${randomUUID().slice(0, 8)}`)
  const made = casesOf(tool.definition, { seed, examples: [first, ...given], most: MAX_CASES }).cases
  // What is run is never what the schema suggests.
  const cases = isExecuting
    ? made.filter((each) => given.some((input) => isSame(input, each.arguments)))
    : made
  const inside = cases.filter((each) => isInside(each, sandbox))
  const all: Tried[] = []
  for (const tried of inside) {
    if (all.filter(({ answer }) => answer.kind === 'none').length >= MAX_SILENT) break
    const answer = await session.request('tools/call', paramsOf(tool, tried), tool.definition)
    results.called(tool.name)
    all.push({ tried, answer })
    judgeCase(tool, { tried, answer }, context)
  }
  if (all.length < cases.length)
    results.add('results', subject, `${subject}/left-out`, {
      status: 'skipped',
      message: `${cases.length - all.length} calls are not made: they leave the sandbox, or the server does not respond`,
    })
  judgeAll(tool, all, context)
  const uncalled = 'not called: it leaves the sandbox'
  await judgeExamples(tool, examples, context, (input) => answerIn(all, input) ?? uncalled)
}

function isInside({ arguments: given }: Case, sandbox: Sandbox): boolean {
  return isObject(given) && outsideOf(sandbox, given, { mustBind: true }) === undefined
}

/**
 * The feature `progress`: progress notifications of long calls, operations that can be resumed, and tasks in both
 * directions. Any slow tool is a task for clients that support tasks; any task of a server is a plain call for the others.
 */
import { NS } from '../../core/identity.ts'
import { tasksExtension } from '../../core/revisions.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { LongCalls } from '../../core/descriptor.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { pause } from '../../core/time/waiting.ts'
import { hasCoreTasks, requestedTask } from '../../protocol/tasks.ts'
import { isEnded, type OperationRecord } from '../../records/operations.ts'
import { asRelayingTool } from '../builtin-tool.ts'
import type { BuiltinTool, Feature } from '../feature.ts'
import { operationCounts, toolFacts } from '../offers.ts'
import { isSlowTool, OperationEngine } from './engine.ts'
import { RunningCalls, countByState } from './running-call.ts'
import { Recovery } from './recovery.ts'
import { remainingPages } from './journal.ts'
import { failureOfOperation } from './task-view.ts'
import { listenToTasks } from './task-listener.ts'
import { isVisible, type Parts, taskMethods } from './tasks.ts'
import { type ProgressSettings, progressSchema } from '../settings/admit.ts'

/** Reports the progress of calls, and lets them outlive their requests. */
export const progress: Feature<ProgressSettings> = {
  ...progressSchema,
  create: (settings, deps) => {
    const engine = new OperationEngine(settings, deps)
    const recovery = new Recovery(engine, deps)
    const parts = { engine, recovery, deps }
    const resume = resuming(parts)
    return {
      calls: {
        middleware: ({ method, isBuiltin }) => {
          // Below the gateway's own tools: they do not run as tasks.
          if (method === 'tools/list')
            return (next) => async (call) => withTaskSupport(call, await next(call))
          if (method !== 'tools/call' || isBuiltin) return undefined
          return (next) => (call) => (call.internal ? next(call) : engine.run(call, next))
        },
        // A client of 2025-11-25 that requests a task gets one, whose result is the report.
        dryRun: ({ isBuiltin }) => {
          if (isBuiltin) return undefined
          return (next) => (call) => (requestedTask(call) ? engine.run(call, next) : next(call))
        },
      },
      responseMiddleware: (method) => {
        if (method !== 'subscriptions/listen') return undefined
        return (next) => (call) => listenToTasks(call, next, { engine, deps })
      },
      builtins: {
        methods: { ...taskMethods(parts), 'operation/resume': resume },
        tools: [asRelayingTool(resumeTool, resume)],
        extensions: () => ({ [tasksExtension]: {} }),
      },
      offers: [
        toolFacts.offer(({ upstream, name }) => ({
          longCalls: longCallsOf(settings(upstream), name, deps.servers.settings(upstream)?.tools),
        })),
        operationCounts.offer(() => countByState(deps.scope.once(RunningCalls).byKey.values())),
      ],
      start: () => recovery.start(),
      close: async () => {
        engine.close()
        recovery.close()
      },
    }
  },
}

/** How long calls of a tool are handled, according to the settings. */
export function longCallsOf(
  { keep, tasks: { after, answer_within: answerWithin } }: ProgressSettings,
  tool: string,
  tools: UpstreamSettings['tools'] = {},
): LongCalls {
  return {
    taskAfter: isSlowTool(tools, tool) ? 0 : after,
    keep,
    ...(answerWithin !== undefined && { answerWithin }),
  }
}

/**
 * Marks the tools of a list as ones that can run as a task, for clients of 2025-11-25. A tool whose server forbids that
 * stays as it is, and one that needs it does not: the gateway follows its task for clients that do not.
 */
function withTaskSupport(call: Call, outcome: Outcome): Outcome {
  if (outcome.kind !== 'result' || !hasCoreTasks(call.client)) return outcome
  return { kind: 'result', result: outcome.result.withItems('tools', taskable) }
}

function taskable(tool: Payload): Payload {
  const execution = tool.at('execution') ?? Payload.of({})
  const { taskSupport } = execution.fields
  if (taskSupport === 'forbidden' || taskSupport === 'optional') return tool
  return tool.with({ execution: execution.with({ taskSupport: 'optional' }) })
}

const resumeTool: BuiltinTool['definition'] = {
  name: 'resume_operation',
  title: 'Resume an operation',
  description:
    'Returns the result of a call that took long or whose connection was lost, by its operation_id. Waits while the call runs. The call is not made again.',
  inputSchema: {
    type: 'object',
    properties: {
      operation_id: {
        type: 'string',
        maxLength: 200,
        description: `The id from _meta["${NS}/operation_id"] of a result, or from a progress notification.`,
      },
      checkpoint_token: {
        type: 'string',
        description:
          'Optional, for a call whose pages were collected: the pages after this point are requested from the server.',
      },
    },
    required: ['operation_id'],
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
}

/** The `_meta` key of a result that was kept: the call was not made again. */
const REPLAY_KEY = `${NS}/was_replay`

/** The interval at which the record of another process's operation is read, in milliseconds. */
const POLL_INTERVAL_MS = 250

/**
 * Answers `operation/resume`: waits for an operation of the caller, or returns its kept outcome. With a checkpoint
 * token, returns the pages after it.
 */
function resuming(parts: Parts): Handler {
  return async (call) => {
    const { operation_id: id, checkpoint_token: token } = call.params.fields
    if (typeof id !== 'string') throw invalidParam('operation_id', 'must be a string')
    const key = parts.engine.ids.keyOf(call.principal, id)
    // An operation of another caller fails like an unknown one, without waiting.
    const record = key === undefined ? undefined : await findVisible(key, call, parts)
    if (key === undefined || !record) throw unknownOperation()
    // Whether it has ended or not.
    if (token !== undefined) {
      const rest = remainingPages(call, record, { token, invoker: parts.deps.invoker })
      if (!rest) throw unknownOperation()
      return rest
    }
    const ended = await endOf(key, call, parts)
    if (!ended || !(await isVisible(ended, call, parts.deps))) throw unknownOperation()
    if (!ended.result) throw failureOfOperation(ended)
    return { kind: 'result', result: ended.result.withMeta({ [REPLAY_KEY]: true }) }
  }
}

/** The record of an operation that the caller may see. */
async function findVisible(
  key: string,
  call: Call,
  { engine, recovery, deps }: Parts,
): Promise<OperationRecord | undefined> {
  // A caller can have the id before the record is written.
  await engine.running(key)?.recorded
  const record = (await recovery.find(key))?.record
  return record && (await isVisible(record, call, deps)) ? record : undefined
}

/** The record of an operation once it has ended; undefined if there is none. @throws the reason of the abort */
async function endOf(
  key: string,
  call: Call,
  { engine, recovery }: Parts,
): Promise<OperationRecord | undefined> {
  for (;;) {
    const running = engine.running(key)
    const joined = running && (await running.join(call))
    if (joined) return joined
    const record = (await recovery.find(key))?.record
    if (!record || isEnded(record)) return record
    await pause(POLL_INTERVAL_MS, call.signal)
  }
}

function unknownOperation(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'Operation not found.', {
    field: 'operation_id',
    reason: 'unknown',
    suggestion: 'Only the caller of an operation can resume it, and only until its outcome is forgotten.',
  })
}

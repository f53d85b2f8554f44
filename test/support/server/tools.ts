import { askingTools } from './asking-tools.ts'
import { type Call, note, pause, progress, RpcError } from './call.ts'
import { contentTools } from './content-tools.ts'
import { type Json, textAt } from './json.ts'
import { numberIn, stringIn, textResult, type Tool } from './tool.ts'
import type { Changing, World } from './world.ts'

const count = { type: 'integer' }

/** The tools that show how a call can go, apart from its content and its questions. */
const courseTools: Readonly<Record<string, Tool>> = {
  slow: {
    description: 'Waits, and reports progress',
    properties: { ms: count, steps: count },
    annotations: { readOnlyHint: true },
    run: async (call, args) => {
      const steps = numberIn(args, 'steps', 3)
      for (let step = 1; step <= steps; step++) {
        await pause(call, numberIn(args, 'ms', 30) / steps)
        progress(call, step, steps)
      }
      return textResult(`took ${steps} steps`)
    },
  },
  hang: {
    description: 'Waits until it is cancelled',
    run: (call) => pause(call, 2 ** 31 - 1).then(() => textResult('done')),
  },
  log: {
    description: 'Logs one message of each level given, or of one',
    properties: { level: { type: 'string' }, levels: { type: 'array', items: { type: 'string' } } },
    run: (call, args) => {
      const levels = Array.isArray(args['levels']) ? args['levels'] : [stringIn(args, 'level', 'info')]
      for (const level of levels) {
        if (call.logs(level))
          note(call, 'notifications/message', { level, logger: 'fake', data: `a ${level}` })
      }
      return textResult('logged')
    },
  },
  change: {
    description: 'Changes the tools and the watched resource, or what is given',
    properties: { what: { type: 'array', items: { type: 'string' } } },
    run: (call, args) => {
      const what = Array.isArray(args['what']) ? args['what'] : ['tools', 'watched']
      for (const changing of what) changeOrTell(call, changing)
      return textResult('changed')
    },
  },
  fail: {
    description: 'Returns a tool error',
    run: () => ({ ...textResult('it failed'), isError: true }),
  },
  error: {
    description: 'Returns a JSON-RPC error',
    properties: { code: count, message: { type: 'string' }, data: {} },
    run: (_call, args) => {
      throw new RpcError(numberIn(args, 'code', -32000), stringIn(args, 'message', 'an error'), args['data'])
    },
  },
  crash: {
    description: 'Breaks the connection in the middle of the call',
    properties: { ms: count },
    annotations: { destructiveHint: true },
    run: async (call, args) => {
      await pause(call, numberIn(args, 'ms', 0))
      call.channel.crash()
      return pause(call, 2 ** 31 - 1).then(() => textResult('unreachable'))
    },
  },
  drop: {
    description: 'Ends the stream of the call early and replies when the client takes it up again',
    properties: { ms: count },
    run: async (call, args) => {
      progress(call, 1, 2)
      call.channel.drop()
      await pause(call, numberIn(args, 'ms', 10))
      progress(call, 2, 2)
      return textResult('resumed')
    },
  },
  seen: {
    description: 'Returns everything the server received, as JSON',
    run: (call) => textResult(JSON.stringify(call.world.journal.seen)),
  },
  violations: {
    description: 'Returns every breach of the protocol the server noticed, as JSON',
    run: (call) => textResult(JSON.stringify(call.world.journal.violations)),
  },
}

function changeOrTell(call: Call, changing: unknown): void {
  if (isChanging(changing)) call.world.change(changing)
  if (changing === 'vendor') note(call, 'notifications/vendor', { news: true })
}

function isChanging(value: unknown): value is Changing {
  return value === 'tools' || value === 'prompts' || value === 'resources' || value === 'watched'
}

const added: Tool = { description: 'Appeared after a change', run: () => textResult('added') }

/** The tools the server has at the moment. */
export function toolsOf(world: World): ReadonlyMap<string, Tool> {
  const all = Object.entries({ ...contentTools, ...courseTools, ...askingTools })
  const fitting = new Map(all.filter(([, tool]) => tool.fits?.(world.traits) ?? true))
  for (let change = 1; change <= world.toolChanges; change++) fitting.set(`added_${change}`, added)
  return fitting
}

/** Calls a tool. */
export async function callTool(call: Call): Promise<Json> {
  const { name, arguments: args = {} } = call.params
  const tool = typeof name === 'string' ? toolsOf(call.world).get(name) : undefined
  if (!tool) throw new RpcError(-32602, `Unknown tool: ${String(name)}`)
  const text = textAt(call.text, ['params', 'arguments']) ?? '{}'
  if (!text.startsWith('{')) {
    call.world.journal.violation(`the arguments of ${String(name)} are no object: ${text}`)
    throw new RpcError(-32602, 'The arguments must be an object')
  }
  return await tool.run(call, args as Json)
}

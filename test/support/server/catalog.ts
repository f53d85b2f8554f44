import { type Call, RpcError } from './call.ts'
import { pixel } from './content-tools.ts'
import { type Json, objectAt } from './json.ts'
import { formQuestion, rootsQuestion } from './questions.ts'
import { toolEntry } from './tool.ts'
import { toolsOf } from './tools.ts'
import { watchedUri, type World } from './world.ts'

/** The entries of one page of a list, and the cursor of the next. */
export function page(call: Call, member: string, entries: readonly Json[]): Json {
  const { pageSize = entries.length, emptyLastCursor } = call.world.options
  const { cursor } = call.params
  const start = cursor === undefined || cursor === '' ? 0 : Number(String(cursor).replace(/^after-/, ''))
  const isKnown = Number.isInteger(start) && start < Math.max(entries.length, 1)
  if (!isKnown) throw new RpcError(-32602, 'Invalid cursor')
  const end = start + pageSize
  const next = end < entries.length ? `after-${end}` : emptyLastCursor ? '' : undefined
  return { [member]: entries.slice(start, end), ...(next !== undefined && { nextCursor: next }) }
}

/** The entries of the tools. */
export function toolEntries(world: World): Json[] {
  return [...toolsOf(world)].map(([name, tool]) => toolEntry(world, name, tool))
}

/** The entries of the resources. */
export function resourceEntries(world: World): Json[] {
  const title = (text: string) => (world.traits.titles ? { title: text } : {})
  return [
    { uri: 'fake://static', name: 'static', ...title('Static'), mimeType: 'text/plain' },
    { uri: 'fake://pixel', name: 'pixel', ...title('Pixel'), mimeType: 'image/png' },
    { uri: watchedUri, name: 'watched', ...title('Watched'), mimeType: 'text/plain' },
    { uri: 'fake://asking', name: 'asking', ...title('Asks before it is read') },
  ]
}

/** The entries of the resource templates. */
export function templateEntries(): Json[] {
  return [{ uriTemplate: 'fake://item/{id}', name: 'item', description: 'An item by its id' }]
}

/** The entries of the prompts. */
export function promptEntries(): Json[] {
  const args = [
    { name: 'name', description: 'Whom to greet', required: true },
    { name: 'style', description: 'How to greet' },
  ]
  return [
    { name: 'greet', description: 'Greets someone', arguments: args },
    { name: 'plain', description: 'Has no arguments' },
    { name: 'asking', description: 'Asks before it is given' },
  ]
}

/** Reads a resource. */
export async function readResource(call: Call): Promise<Json> {
  const uri = String(call.params['uri'])
  if (uri === 'fake://static') return textContents(uri, 'static')
  if (uri === watchedUri) return textContents(uri, 'watched')
  if (uri === 'fake://pixel') return { contents: [{ uri, mimeType: 'image/png', blob: pixel }] }
  if (uri === 'fake://asking') return textContents(uri, await askSomething(call))
  const id = /^fake:\/\/item\/(.+)$/.exec(uri)?.[1]
  if (id !== undefined) return textContents(uri, `item ${id}`)
  throw new RpcError(call.world.traits.modern ? -32602 : -32002, 'Resource not found', { uri })
}

/** Gives a prompt. */
export async function getPrompt(call: Call): Promise<Json> {
  const { name } = call.params
  const args = objectAt(call.params, 'arguments')
  if (name === 'plain') return userMessage('Hello')
  if (name === 'asking') return userMessage(await askSomething(call))
  if (name !== 'greet') throw new RpcError(-32602, `Unknown prompt: ${String(name)}`)
  if (args['name'] === undefined) throw new RpcError(-32602, 'Missing argument: name')
  return userMessage(`Hello ${String(args['name'])}, ${String(args['style'] ?? 'plainly')}`)
}

/** Completes an argument. */
export function complete(call: Call): Json {
  const { value } = objectAt(call.params, 'argument')
  const context = objectAt(objectAt(call.params, 'context'), 'arguments')
  if (!call.world.traits.structured && call.params['context'] !== undefined) {
    call.world.journal.violation(`completion context sent to ${call.world.options.revision}`)
  }
  const names = ['Ada', 'Alan', 'Grace', ...Object.values(context).map(String)]
  const values = names.filter((name) => name.toLowerCase().startsWith(String(value).toLowerCase()))
  return { completion: { values, total: values.length, hasMore: false } }
}

async function askSomething(call: Call): Promise<string> {
  const { traits } = call.world
  const question = traits.elicitation ? formQuestion(traits, 'May I?') : rootsQuestion()
  return JSON.stringify(await call.ask({ answer: question }))
}

function textContents(uri: string, text: string): Json {
  return { contents: [{ uri, mimeType: 'text/plain', text }] }
}

function userMessage(text: string): Json {
  return { messages: [{ role: 'user', content: { type: 'text', text } }] }
}

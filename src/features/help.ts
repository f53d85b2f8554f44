/** The guide for agents: `ai_help`, `/ai-help` and `/llms.txt`. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { helpKey, helpOf, llmsFullText, llmsText } from '../descriptions/formats/help.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { answered, asTool, pageOf } from './builtin-tool.ts'
import { describedList } from './describing.ts'
import type { Feature, BuiltinPage, BuiltinTool, Services } from './feature.ts'
import { type HelpSettings, helpSchema } from './settings/describe.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

const { name: NAME } = helpSchema

/** Explains the use of a server to agents: the whole guide, one section, or one tool. */
export const help: Feature<HelpSettings | false> = {
  ...helpSchema,
  create: (settings, deps) => {
    const answer: Handler = async (call) => answered(await helpFor(call, deps))
    const isListed = (upstream?: string): boolean | undefined => {
      const serverSettings = settings(upstream)
      return serverSettings === false ? undefined : serverSettings.listed
    }
    const isOpen = (): boolean => {
      const serverSettings = settings()
      return serverSettings !== false && serverSettings.public
    }
    return {
      builtins: {
        methods: { ai_help: answer },
        tools: [{ ...readable(asTool(definition, answer)), isListed }],
      },
      http: {
        pages: pagesOf(isOpen, deps),
      },
    }
  },
}

/** How long a guide may be cached, in seconds. */
const MAX_AGE = 60

const definition = {
  name: 'ai_help',
  title: 'How to use this server',
  description:
    'Returns the guide to this server: when to use it, its tools with parameters, effects and errors, limits and rules. ' +
    'With `section`, only one section or one tool.',
  inputSchema: {
    type: 'object',
    properties: {
      format: { type: 'string', enum: ['markdown', 'json'], default: 'markdown' },
      section: {
        type: ['string', 'null'],
        description: 'A section such as `quickReference` or `errorHandling`, or the name of a tool.',
      },
    },
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
}

async function helpFor(call: Call, deps: Deps): Promise<Record<string, unknown>> {
  const { format, section } = call.params.fields
  const description = await describedList(NAME, call, deps)
  const request = { format, section }
  return deps.descriptions.document(description, helpKey(description, request), (each) =>
    helpOf(each, request),
  )
}

/** Returns the markdown guide as plain text for models. */
function readable(tool: BuiltinTool): BuiltinTool {
  return {
    ...tool,
    handle: async (call) => {
      const outcome = await tool.handle(call)
      if (outcome.kind !== 'result') return outcome
      const { structuredContent: found } = outcome.result.fields
      if (!isObject(found) || typeof found.content !== 'string') return outcome
      return {
        kind: 'result',
        result: outcome.result.with({ content: [{ type: 'text', text: found.content }] }),
      }
    },
  }
}

function pagesOf(isOpen: () => boolean, deps: Deps): BuiltinPage[] {
  const guide: Handler = async (call) => {
    const { content, ...rest } = await helpFor(call, deps)
    if (typeof content === 'string') return markdown(content)
    return pageOf({ text: JSON.stringify(rest), type: 'application/json', maxAge: MAX_AGE })
  }
  const text =
    (key: string, make: (description: ServerDescription) => string): Handler =>
    async (call) =>
      markdown(deps.descriptions.document(await describedList(NAME, call, deps), key, make))
  const short = text('llms', llmsText)
  return [
    { path: '/ai-help', handle: guide },
    { path: '/ai-help/*', handle: guide },
    { path: '/llms.txt', isOpen, handle: short },
    { path: '/.well-known/llms.txt', isOpen, handle: short },
    { path: '/llms-full.txt', isOpen, handle: text('llms-full', llmsFullText) },
  ]
}

function markdown(text: string): Outcome {
  return pageOf({ text, type: 'text/markdown; charset=utf-8', maxAge: MAX_AGE })
}

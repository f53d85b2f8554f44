/** Notes on listed tools in `_meta`: cost, latency, media. */
import { NS } from '../../protocol/meta-keys.ts'
import { costData, latencyOf, outputTypesOf } from '../model/facts.ts'
import type { ToolDescription } from '../model/description.ts'

type Json = Readonly<Record<string, unknown>>

/** Additional `_meta` of a listed tool: cost, latency, media types. */
export function toolNotes(tool: ToolDescription): Json {
  const { cost } = tool.facts
  // What a server says itself is in its entry.
  const latency = tool.definition.latency === undefined ? latencyOf(tool) : undefined
  const media = mediaOf(tool)
  return {
    ...(cost && { [`${NS}/cost`]: costData(cost) }),
    ...(latency && { [`${NS}/latency`]: latency }),
    ...(media && { [MEDIA_KEY]: media }),
  }
}

/** The `_meta` key of the media of a tool. */
export const MEDIA_KEY = `${NS}/multimodal`

/** The same media as members of the list entry, for clients that ask for it or for all. */
export function mediaMembers(tool: ToolDescription, isAsked: boolean): Json {
  const { mediaPlace } = tool.facts
  return mediaPlace === 'always' || (mediaPlace === 'asked' && isAsked) ? (mediaOf(tool) ?? {}) : {}
}

/** For how many tools the remaining quota is included: each is a separate read of a store that may be remote. */
const MAX_COUNTED_TOOLS = 100

/** The first tools with a quota: a rate limit, or a cost in a budget. */
export function countedOf<Tool extends Pick<ToolDescription, 'facts'>>(
  tools: readonly Tool[],
): ReadonlySet<Tool> {
  return new Set(tools.filter(isCounted).slice(0, MAX_COUNTED_TOOLS))
}

function isCounted({ facts: { rates, cost } }: Pick<ToolDescription, 'facts'>): boolean {
  return rates !== undefined || (cost?.units ?? 0) > 0
}

/** The media types of a tool, if it handles more than text and JSON. */
function mediaOf(tool: ToolDescription): Json | undefined {
  // The words of the owner and of the server come before what the schema shows.
  const inputTypes = tool.facts.inputTypes && (tool.words.accepts ?? tool.facts.inputTypes)
  const outputTypes = outputTypesOf(tool)
  const isRich = outputTypes.some((type) => type !== 'text/plain' && type !== 'application/json')
  if (!inputTypes && !isRich) return undefined
  return {
    ...(inputTypes && { input_types: inputTypes }),
    ...(outputTypes.length > 0 && { output_types: outputTypes }),
    ...(inputTypes && inputLimits(tool)),
  }
}

/** The largest input in a call and, where files can be sent as a form before it, where, and the largest of them. */
export function inputLimits({ facts, words }: ToolDescription): Json {
  const { upload } = facts
  const own = words.maxInput ?? Infinity
  const inCall = Math.min(facts.maxInput ?? Infinity, own)
  return {
    ...(inCall !== Infinity && { max_input_size_bytes: inCall }),
    ...(upload && {
      binary_transport: 'multipart',
      upload_url: upload.url,
      max_upload_size_bytes: Math.min(upload.max, own),
    }),
  }
}

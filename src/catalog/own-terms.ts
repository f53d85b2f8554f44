import type { Call, Handler, Outcome } from '../core/call.ts'
import { aliasOf } from '../core/alias.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { self } from '../core/self.ts'
import { metaKeys } from '../wire/extensions.ts'
import { ACKNOWLEDGED, readFilter, withUri, withUris } from '../wire/filter.ts'
import { method } from '../wire/methods.ts'
import { failedRead } from './failed-read.ts'
import { nameUris } from './merge.ts'
import { originalUri, ownUri } from './own-uris.ts'
import { completeEntry, completeResult } from './completeness.ts'

/** Shows servers as strict hosts want them: names in snake case, resources in the scheme of their server. */
export function strictNames(next: Handler): Handler {
  return (call) => {
    const { upstream } = call.target
    if (upstream === undefined) return next(call)
    const exposed = (uri: string): string => ownUri(upstream, uri)
    const asked = original(call, upstream)
    const emit: Call['emit'] = (note) => {
      if (note.method !== ACKNOWLEDGED) return call.emit(withUri(note, exposed))
      const notifications = withUris(readFilter(note.params), exposed)
      call.emit({ ...note, params: (note.params ?? Payload.of({})).with({ notifications }) })
    }
    const named = (result: Payload): Payload => nameUris(completeResult(asked, result), exposed)
    const shown = (result: Payload): Payload => call.rewriteResult?.(named(result)) ?? named(result)
    return next({ ...asked, emit, rewriteResult: shown }).then(
      (outcome) => inTerms(outcome, asked, { named, exposed }),
      (error: unknown) => failedRead(error, call.params, asked.params),
    )
  }
}

/** The call with the URIs the server knows. */
function original(call: Call, upstream: string): Call {
  const { params } = call
  const { uri } = params.fields
  const known = (each: string): string => originalUri(upstream, each)
  if (call.method === 'resources/read' && typeof uri === 'string') {
    const name = known(uri)
    return { ...call, params: params.with({ uri: name }), target: { ...call.target, name } }
  }
  if (call.method === 'subscriptions/listen') {
    return { ...call, params: params.with({ notifications: withUris(readFilter(params), known) }) }
  }
  if (call.method !== 'completion/complete') return call
  const reference = params.at('ref')
  const template = reference?.fields.uri
  if (!reference || typeof template !== 'string') return call
  return { ...call, params: params.with({ ref: reference.with({ uri: known(template) }) }) }
}

interface Terms {
  /** What is no list, with its URIs. */
  named(result: Payload): Payload
  exposed(uri: string): string
}

function inTerms(outcome: Outcome, call: Call, { named, exposed }: Terms): Outcome {
  if (outcome.kind === 'input_required') return outcome
  if (call.method === 'server/discover') return { kind: 'result', result: introduced(outcome.result) }
  const { list } = method(call.method)
  const entries = list === undefined ? undefined : outcome.result.at(list)?.items
  if (list === undefined || !entries) return { kind: 'result', result: named(outcome.result) }
  const texts = entries.map((entry) => renamed(completeEntry(list, entry), exposed).text)
  return { kind: 'result', result: outcome.result.with({ [list]: Payload.text(`[${texts.join(',')}]`) }) }
}

/** What a server says of itself under the name and version of the gateway, which logs where no server does. */
function introduced(result: Payload): Payload {
  const capabilities = result.at('capabilities') ?? Payload.of({})
  const meta = result.fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const title = isObject(info) ? (info.title ?? info.name) : undefined
  const own = { ...self, ...(typeof title === 'string' && { title }) }
  const logging = isObject(capabilities.fields.logging) ? capabilities.fields.logging : {}
  return result
    .with({ capabilities: capabilities.with({ logging }) })
    .withMeta({ [metaKeys.serverInfo]: own })
}

function renamed(entry: Payload, exposed: (uri: string) => string): Payload {
  const { name, uri, uriTemplate } = entry.fields
  if (typeof uri === 'string') return entry.with({ uri: exposed(uri) })
  if (typeof uriTemplate === 'string') return entry.with({ uriTemplate: exposed(uriTemplate) })
  return typeof name === 'string' ? entry.with({ name: aliasOf(name) }) : entry
}

/**
 * What other services report by webhooks: events that the configuration declares with `hook`.
 *
 * Invariant: a webhook that was accepted is in the log, and is marked in the store for a day, so that a replay is dropped
 * also after a restart, and by every gateway with the same store. The id of its event comes from what its signature
 * covers: if a gateway ends before it can mark it, the event that the sender sends again has the same id.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { GatewayError } from '../../../core/error.ts'
import { isNumber, plainDigits } from '../../../core/json/exact-number.ts'
import { isObject, readJson } from '../../../core/json/json.ts'
import { follow, parseSteps } from '../../../core/json/path.ts'
import { type HookEvent, publicUrl } from '../../../core/settings.ts'
import { fits } from '../../../core/text/pattern.ts'
import { pageOf } from '../../builtin-tool.ts'
import type { BuiltinPage } from '../../feature.ts'
import type { ArrivingHook } from '../../../core/http-paths.ts'
import { masked } from '../../offers.ts'
import { RECEIVERS_PATH, receiversFile } from '../sinks/receivers.ts'
import { type EventSource, type EventType, type Fields, hasFields, type SourceContext } from '../types.ts'
import { acceptOnce, HookReceiver, type HookRequest } from './hook-receiver.ts'
import { contentOf, contentSchema, declaredFilters, hasScope, omittedSchema } from './declared.ts'

/** How long the file of receivers may be cached, in seconds. */
const FILE_MAX_AGE_S = 300

/** The longest type of a webhook, in characters. */
const MAX_TYPE_LENGTH = 200

/** The events of webhooks. */
export function hookEvents(context: SourceContext): EventSource {
  return new Hooks(context)
}

class Hooks implements EventSource {
  readonly name = 'hooks'
  readonly pages: readonly BuiltinPage[]
  readonly #context: SourceContext
  readonly #receiver: HookReceiver

  constructor(context: SourceContext) {
    this.#context = context
    this.#receiver = new HookReceiver({
      hook: (server, name) => this.#declared(server, name),
      store: (hook, replayKey) => this.#storeOnce(hook, replayKey),
      now: world.now,
    })
    this.pages = this.#receiversPage()
  }

  types(upstream: string | undefined): readonly EventType[] {
    return this.#hooks(upstream).map(([name, event]) => hookType(upstream, name, event))
  }

  /** Those that need no scope: descriptions are for all callers. */
  described(upstream: string | undefined): readonly EventType[] {
    const open = this.#hooks(upstream).filter(([, { scope }]) => scope === undefined)
    return open.map(([name, event]) => hookType(upstream, name, event))
  }

  /** Accepts a webhook; resolves once its event is in the log. @throws what `HookReceiver.receive` throws */
  receive(hook: ArrivingHook): Promise<undefined> | undefined {
    return hook.isOfServer ? undefined : this.#receiver.receive(hook).then(() => undefined)
  }

  /**
   * The public file that says where webhooks are received: those of the hooks of all servers, or of none, and those of
   * servers that reach the gateway at its public URL.
   */
  #receiversPage(): readonly BuiltinPage[] {
    const { deps, upstreams } = this.#context
    const url = publicUrl(deps.gateway.settings, '/hooks/')
    const hasHooks = [undefined, ...upstreams()].some((upstream) => this.#hooks(upstream).length > 0)
    if (!hasHooks && url === undefined) return []
    const path = url === undefined ? '/hooks/' : new URL(url).pathname
    const page = { text: receiversFile([path]), type: 'application/json', maxAge: FILE_MAX_AGE_S }
    return [{ path: RECEIVERS_PATH, isOpen: () => true, handle: async () => pageOf(page) }]
  }

  #hooks(upstream: string | undefined): readonly (readonly [string, HookEvent])[] {
    return [...(this.#context.deps.gateway.settings.events.get(upstream) ?? [])].flatMap(([name, event]) =>
      event.kind === 'hook' ? [[name, event] as const] : [],
    )
  }

  #declared(server: string | undefined, name: string): HookEvent | undefined {
    const event = this.#context.deps.gateway.settings.events.get(server)?.get(name)
    return event?.kind === 'hook' ? event : undefined
  }

  /** @throws INVALID_REQUEST, SERVER_UNAVAILABLE */
  async #storeOnce(hook: HookRequest, replayKey: string): Promise<void> {
    const { store } = this.#context.deps
    const event = this.#declared(hook.server, hook.name)
    const body = readJson(hook.body)
    if (!event || !isObject(body))
      throw new GatewayError('INVALID_REQUEST', 'The body is not a JSON object.', {
        suggestion: 'Send it as application/json.',
      })
    const digest = hash('sha256', JSON.stringify([hook.server ?? null, hook.name, replayKey]), 'base64url')
    await acceptOnce(store, digest, async () => {
      if (!isSelected(event, hook, body)) return
      const { server: upstream, name } = hook
      const target = { method: 'hook', name, ...(upstream !== undefined && { upstream }) }
      const { content, omitted } = contentOf(masked(this.#context.deps, body, target), event)
      const type = typeOf(event, hook, body)
      await this.#context.events(upstream).add({
        id: `evt_${digest.slice(0, 22)}`,
        name,
        data: { ...(type !== undefined && { type }), body: content, ...(omitted && { omitted }) },
      })
    })
  }
}

function hookType(upstream: string | undefined, name: string, event: HookEvent): EventType {
  return {
    upstream,
    name,
    description: event.description ?? 'Another service reports this by a webhook.',
    inputSchema: declaredFilters(['type'], event),
    payloadSchema: {
      type: 'object',
      properties: {
        type: { type: 'string', description: 'What the service calls this kind of webhook.' },
        body: contentSchema(event, 'What the service sent.'),
        omitted: omittedSchema,
      },
      required: ['body'],
    },
    isRequested: (given, { data }) =>
      hasFields({ type: data.type, ...(isObject(data.body) && data.body) }, given),
    mayReceive: (_event, { principal }) => hasScope(principal, event),
  }
}

/** Whether each path and header of `when` has one of its values. */
function isSelected({ when }: HookEvent, { headers }: HookRequest, body: Fields): boolean {
  return Object.entries(when).every(([place, globs]) => {
    const actual = place.startsWith('$')
      ? follow(body, parseSteps(place) ?? [])
      : headers[place.toLowerCase()]
    const isScalar = typeof actual === 'string' || isNumber(actual) || typeof actual === 'boolean'
    const texts = [String(actual), ...(isNumber(actual) ? [plainDigits(actual)] : [])]
    return isScalar && globs.some((glob) => texts.some((text) => fits(glob, text)))
  })
}

/** What the service calls this kind of webhook: GitHub does so in a header, the others in the body. */
function typeOf({ form }: HookEvent, { headers }: HookRequest, body: Fields): string | undefined {
  const type = form === 'github' ? headers['x-github-event'] : body.type
  return typeof type === 'string' && type.length <= MAX_TYPE_LENGTH ? type : undefined
}

import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { attempt } from '../../core/waiting.ts'
import { NS } from '../../wire/extensions.ts'
import type { Deps, Feature } from '../feature.ts'
import { type Input, inputsOf, inputTypes } from './inputs.ts'
import { type Bytes, canBe, dataUri, inBase64, seemsBase64, sniffed } from './media.ts'

/** Where in `_meta` it stands what is odd about the media of a call. */
const META_KEY = `${NS}/multimodal`

/** Says which media tools take and give, and refuses those that are too large before servers get them. */
export const multimodal: Feature<Record<never, never>> = {
  name: 'multimodal',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description: 'Whether it is said which media tools take and give, and looked at what they get.',
    properties: {},
  },
  create: (_settings, deps) => {
    const known = new WeakMap<object, Inputs>()
    const inputs = ({ definition }: Descriptor): Inputs => {
      const seen = known.get(definition)
      if (seen) return seen
      const all = inputsOf(definition.inputSchema)
      const found = { all, binary: all.filter(({ isBinary }) => isBinary) }
      known.set(definition, found)
      return found
    }
    const setting = <Key extends 'accepts' | 'returns' | 'maxInput'>(
      upstream: string,
      name: string,
      key: Key,
    ) => settingOf(deps.server(upstream)?.tools ?? {}, name, key)?.value
    return {
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
          return undefined
        const limit = setting(upstream, name, 'maxInput')
        return (next) => (call) => checked(call, { next, inputs, limit, deps })
      },
      logFields: (entry) => {
        const { upstream, name } = entry
        const taken = setting(upstream, name, 'accepts') ?? inputTypes(inputs(entry).all)
        const given = setting(upstream, name, 'returns')
        return {
          ...(taken.length > 0 && { inputTypes: taken }),
          ...(given && { outputTypes: given }),
          maxInput: setting(upstream, name, 'maxInput') ?? deps.largestRequest,
        }
      },
    }
  },
}

interface Around {
  readonly next: Handler
  readonly limit: number | undefined
  readonly deps: Deps
  inputs(entry: Descriptor): Inputs
}

/** What a tool takes that is no plain text, and what of it comes as bytes. */
interface Inputs {
  readonly all: readonly Input[]
  readonly binary: readonly Input[]
}

function checked(call: Call, around: Around): Promise<Outcome> {
  const entry = attempt(() => around.deps.entry(call))
  if (!(entry instanceof Promise)) return looked(call, entry, around)
  return entry.then(
    (found) => looked(call, found, around),
    () => around.next(call),
  )
}

function looked(
  call: Call,
  entry: Descriptor | undefined,
  { next, inputs, limit }: Around,
): Promise<Outcome> {
  const binary = entry ? inputs(entry).binary : []
  if (binary.length === 0 && limit === undefined) return next(call)
  const { arguments: given } = call.params.fields
  const found = isObject(given) ? mediaIn(given, binary, limit !== undefined) : []
  const large = found.find(({ bytes }) => limit !== undefined && bytes.size > limit)
  if (large && limit !== undefined) return Promise.reject(tooLarge(large, limit))
  const notes = found.flatMap((each) => mismatch(each) ?? [])
  if (notes.length === 0) return next(call)
  return next(call).then((outcome) =>
    outcome.kind === 'result'
      ? { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: { details: notes } }) }
      : outcome,
  )
}

/** Media in an argument. */
interface Found {
  readonly argument: string
  readonly bytes: Bytes
}

/** How many texts of one call are looked at. */
const MAX_TEXTS = 100

/** The media in arguments: those that take them and, where asked, whatever is a data URI. */
function mediaIn(
  given: Readonly<Record<string, unknown>>,
  binary: readonly Input[],
  isAnywhere: boolean,
): readonly Found[] {
  const found: Found[] = []
  for (const [argument, value] of Object.entries(given)) {
    const input = binary.find(({ name }) => name === argument)
    if (!input && !isAnywhere) continue
    for (const text of textsIn(value)) {
      const bytes = bytesIn(text, input)
      if (bytes && found.length < MAX_TEXTS) found.push({ argument, bytes })
    }
  }
  return found
}

function bytesIn(text: string, input: Input | undefined): Bytes | undefined {
  const uri = dataUri(text)
  if (uri || !input || !seemsBase64(text)) return uri
  return { ...inBase64(text), ...(input.isDeclared && { declared: input.type }) }
}

function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (depth > 4 || typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap((each) => textsIn(each, depth + 1))
}

/** What is not what it is said to be is noted: the server may know better. */
function mismatch({ argument, bytes }: Found): Readonly<Record<string, unknown>> | undefined {
  const { base64, declared } = bytes
  const found = declared === undefined ? undefined : sniffed(base64)
  if (found === undefined || declared === undefined || canBe(found, declared)) return undefined
  return { argument, declared, found, reason: 'media_type_mismatch' }
}

function tooLarge({ argument, bytes }: Found, limit: number): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    `The argument ${argument} has ${bytes.size} bytes, and at most ${limit} are let through.`,
    {
      field: argument,
      suggestion: 'Send something smaller.',
      details: { limit, actual: bytes.size },
      isResult: true,
    },
  )
}

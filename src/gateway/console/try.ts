/** Calls that a person makes on `/console/try`, through everything that calls of clients go through. */
import {
  type Call,
  type Handler,
  type InputRequests,
  type InputResponse,
  type Outcome,
} from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { asList, asObject, isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { PageUser } from '../../downstream/pages/page-users.ts'
import { readForm, type SchemaField, schemaFields } from '../../downstream/pages/schema-form.ts'
import type {
  Answers,
  Made,
  Question,
  TriedCall,
  TriedTools,
  TrySource,
} from '../../downstream/pages/try-page.ts'
import { isConfirmation } from '../../features/confirm/elicitation.ts'
import { DRY_RUN_KEY } from '../../protocol/meta-keys.ts'
import { bindingOf, type RequestStateCodec } from '../../protocol/request-state.ts'
import { callByPerson } from '../command-call.ts'
import type { Runtime } from '../runtime.ts'
import type { ToolLists } from './tool-lists.ts'

interface TryGateway {
  readonly toolLists: ToolLists
  runtime(): Runtime
  readonly handle: Handler
  /** Seals the state of a call that asks, until its answers come. */
  codec(): RequestStateCodec
}

/** The calls of the page. */
export class ConsoleCalls implements TrySource {
  readonly #gateway: TryGateway

  constructor(gateway: TryGateway) {
    this.#gateway = gateway
  }

  servers(): readonly string[] {
    return [...this.#gateway.runtime().upstreams.keys()]
  }

  async tools(server: string): Promise<TriedTools> {
    const found = await this.#gateway.toolLists.of(server)
    if ('problem' in found) throw new GatewayError('SERVER_UNAVAILABLE', found.problem)
    const tools = found.tools.map(({ name, definition, classification }) => {
      const { title, description, inputSchema } = definition
      return {
        name,
        ...(typeof title === 'string' && { title }),
        ...(typeof description === 'string' && { description }),
        risk: classification.risk,
        inputSchema,
      }
    })
    return { tools, ...(found.note !== undefined && { note: found.note }) }
  }

  async make(tried: TriedCall, user: PageUser): Promise<Made> {
    const { server: upstream, tool, isDryRun, answers } = tried
    const given = Payload.text(tried.arguments)
    // A token that makes a call cannot approve it.
    const isProgram = user.via === 'token'
    const call = callByPerson({ upstream, tool, arguments: given, isDryRun }, user.principal, isProgram)
    if (isProgram && answers)
      throw new GatewayError('PERMISSION_DENIED', 'A program with a token cannot answer for a person.')
    if (!answers) return this.#ended(call, await this.#gateway.handle(call))
    return this.#goOn(call, answers)
  }

  /** Makes a call again with the answers to its questions, or asks again where they are not valid. @throws STATE_INVALID */
  async #goOn(call: Call, { state: sealed, isAccepted, typed }: Answers): Promise<Made> {
    const opened = this.#gateway.codec().open(sealed, bindingOf(call))
    const questions = asList(opened.questions).filter(isObject).map(storedQuestion)
    const read = questions.map((question, index) => {
      if (!isAccepted) return { response: responseOf('decline') }
      const ofForm = readForm(question.fields, typed[index] ?? {})
      return 'text' in ofForm
        ? { response: responseOf('accept', withGesture(question, ofForm.text)) }
        : { problems: ofForm.problems }
    })
    if (read.some(({ problems }) => problems !== undefined)) {
      const asked = questions.map((question, index) => {
        return { ...question, typed: typed[index] ?? {}, problems: read[index]?.problems }
      })
      return {
        kind: 'questions',
        questions: asked,
        state: this.#gateway.codec().close(opened, bindingOf(call)),
      }
    }
    const inputResponses = Object.fromEntries(
      questions.flatMap(({ key }, index) => {
        const response = read[index]?.response
        return response ? [[key, response] as const] : []
      }),
    )
    const again = { ...call, inputResponses, requestState: asObject(opened.state) }
    return this.#ended(call, await this.#gateway.handle(again))
  }

  #ended(call: Call, outcome: Outcome): Made {
    if (outcome.kind === 'result') {
      const { result } = outcome
      const report = result.meta(DRY_RUN_KEY)
      return { kind: 'result', result, ...(isObject(report) && { report }) }
    }
    if (outcome.kind === 'task') throw new GatewayError('UNSUPPORTED_OPERATION', 'The call became a task.')
    const of = isConfirmation(outcome) ? 'gateway' : 'server'
    const questions = questionsOf(outcome.inputRequests, of)
    const state = this.#gateway.codec().close({ state: outcome.requestState, questions }, bindingOf(call))
    return { kind: 'questions', questions, state }
  }
}

/** A question with the key of its request. */
interface KeyedQuestion extends Question {
  readonly key: string
  /** Whether accepting the form is all that it takes: the box of a confirmation is the button of the page. */
  readonly hasGesture: boolean
}

function questionsOf(requests: InputRequests, of: Question['of']): readonly KeyedQuestion[] {
  return Object.entries(requests).map(([key, { params }]) => {
    const { message, mode, url, requestedSchema } = params?.fields ?? {}
    const fields = schemaFields(requestedSchema) ?? []
    const isGesture = ({ name, kind }: SchemaField): boolean =>
      of === 'gateway' && name === 'confirm' && kind === 'boolean'
    return {
      key,
      of,
      message: typeof message === 'string' ? message : 'Input is requested.',
      ...(mode === 'url' && typeof url === 'string' && { url }),
      fields: fields.filter((field) => !isGesture(field)),
      hasGesture: fields.some(isGesture),
    }
  })
}

/** A question of the sealed state, which the gateway wrote. */
function storedQuestion(stored: Readonly<Record<string, unknown>>): KeyedQuestion {
  return stored as unknown as KeyedQuestion
}

/** The content of an answer: accepting a confirmation ticks its box. */
function withGesture({ hasGesture }: KeyedQuestion, text: string): Payload {
  const content = Payload.text(text)
  return hasGesture ? content.with({ confirm: true }) : content
}

function responseOf(action: 'accept' | 'decline', content?: Payload): InputResponse {
  return { result: Payload.of({ action }).with({ ...(content && { content }) }) }
}

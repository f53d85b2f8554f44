/**
 * `/console/try`: calls a tool by hand. A call is tried first, which says what it would do and what a person would be asked; an
 * operator can then make it, through everything that calls of clients go through. The questions of a call are forms of the page.
 */
import { type Risk, riskWords } from '../../core/descriptor.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { asList, asObject, isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { ARGUMENT_PREFIX } from './approval-page.ts'
import type { ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import { displayJson, displayWord, html, type Html, type HtmlPart, linesHtml, plainText } from './html.ts'
import { type FormFields, textField } from './page-entry.ts'
import { hasRole, type PageUser } from './page-users.ts'
import {
  fieldsHtml,
  readForm,
  readWhole,
  type SchemaField,
  schemaFields,
  type Typed,
  typedFor,
} from './schema-form.ts'

/** The tools, and how they are called. */
export interface TrySource {
  servers(): readonly string[]
  /** The tools that a page user may see. @throws RESOURCE_NOT_FOUND, SERVER_UNAVAILABLE */
  tools(server: string, user: PageUser): Promise<TriedTools>
  /** Makes or tries a call, or goes on with one that asked. @throws what the call fails with */
  make(call: TriedCall, user: PageUser): Promise<Made>
}

/** The tools of a server, and why they may not be those of now. */
export interface TriedTools {
  readonly tools: readonly TriedTool[]
  readonly note?: string | undefined
}

/** A tool that can be tried. */
interface TriedTool {
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly risk: Risk
  readonly inputSchema: unknown
}

/** A call; `arguments` is a JSON object as text. */
export interface TriedCall {
  readonly server: string
  readonly tool: string
  readonly arguments: string
  readonly isDryRun: boolean
  /** The answers to the questions of an earlier round, and its state. */
  readonly answers?: Answers
}

/** The answers to all questions of a round: accepted with what was typed for each, or declined. */
export interface Answers {
  readonly state: string
  readonly isAccepted: boolean
  readonly typed: readonly Typed[]
}

/** How a call ended, or what it asks. */
export type Made =
  | {
      readonly kind: 'result'
      readonly result: Payload
      readonly report?: Readonly<Record<string, unknown>> | undefined
    }
  | { readonly kind: 'questions'; readonly questions: readonly Question[]; readonly state: string }

/** A question of a call. */
export interface Question {
  /** Who asks: the gateway, before it makes the call, or the server. */
  readonly of: 'gateway' | 'server'
  readonly message: string
  /** The page to open; the question is a form otherwise. */
  readonly url?: string | undefined
  readonly fields: readonly SchemaField[]
  /** What was typed before, and what is wrong with it. */
  readonly typed?: Typed | undefined
  readonly problems?: Readonly<Record<string, string>> | undefined
}

/** The names of the fields of an answer begin with this, the number of the question and a point. */
const ANSWER_PREFIX = 'answer.'

/** The page. */
export function tryPage(source: TrySource): ConsolePage {
  return {
    path: '/console/try',
    title: 'Try it',
    place: 'Try it',
    roles: ['viewer'],
    answer: async (request) => {
      const chosen = await choiceOf(source, request)
      return { content: () => content(chosen, request, {}), json: () => chosenView(chosen) }
    },
    actions: {
      dry_run: {
        role: 'viewer',
        run: (request, fields) => made(source, request, { fields, isDryRun: true }),
      },
      call: {
        role: 'operator',
        run: (request, fields) => made(source, request, { fields, isDryRun: false }),
      },
      answer: { role: 'operator', run: (request, fields) => answeredQuestions(source, request, fields) },
    },
  }
}

/** What the reader has chosen so far. */
interface Choice {
  readonly servers: readonly string[]
  readonly server?: string
  readonly tools?: readonly TriedTool[]
  readonly problem?: string
  readonly tool?: TriedTool
}

async function choiceOf(source: TrySource, { query, user }: ConsoleRequest): Promise<Choice> {
  const servers = source.servers()
  const server = query.get('server') ?? (servers.length === 1 ? servers[0] : undefined) ?? ''
  if (server === '') return { servers }
  if (!servers.includes(server)) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such server.')
  try {
    const { tools, note } = await source.tools(server, user)
    const tool = tools.find(({ name }) => name === query.get('tool'))
    return { servers, server, tools, ...(tool && { tool }), ...(note !== undefined && { problem: note }) }
  } catch (error) {
    const { message } = asGatewayError(error)
    return { servers, server, problem: message }
  }
}

/** What is shown of a call. */
interface Shown {
  readonly typed?: Typed
  readonly whole?: string
  readonly problems?: Readonly<Record<string, string>>
  readonly problem?: string
  readonly ended?: Ended
}

type Ended =
  | (Made & { readonly isDryRun: boolean; readonly arguments: string })
  | { readonly kind: 'error'; readonly error: GatewayError }

interface Submitted {
  readonly fields: FormFields
  readonly isDryRun: boolean
}

/** The chosen tool. @throws RESOURCE_NOT_FOUND */
async function chosenTool(source: TrySource, request: ConsoleRequest) {
  const choice = await choiceOf(source, request)
  const { server, tool } = choice
  if (server === undefined || !tool) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such tool.')
  return { choice, server, tool }
}

async function made(
  source: TrySource,
  request: ConsoleRequest,
  { fields, isDryRun }: Submitted,
): Promise<ConsoleAnswer> {
  const { choice, server, tool } = await chosenTool(source, request)
  const read = readArguments(tool, fields)
  if (!('text' in read)) return answerWith(choice, request, read, 400)
  const { text, ...typed } = read
  const ended = await endOf(
    () => source.make({ server, tool: tool.name, arguments: text, isDryRun }, request.user),
    { isDryRun, arguments: text },
  )
  return answerWith(choice, request, { ...typed, ended })
}

async function endOf(
  make: () => Promise<Made>,
  about: { readonly isDryRun: boolean; readonly arguments: string },
): Promise<Ended> {
  try {
    return { ...(await make()), ...about }
  } catch (thrown) {
    const error = asGatewayError(thrown)
    if (error.code === 'SERVER_ERROR') throw thrown
    return { kind: 'error', error }
  }
}

/** The arguments of a form as JSON text, with what was typed; or what is wrong with it. */
function readArguments(tool: TriedTool, fields: FormFields): (Shown & { readonly text: string }) | Shown {
  const { arguments: given } = fields
  const form = schemaFields(tool.inputSchema)
  if (given !== undefined || !form) {
    const whole = isObject(given) ? JSON.stringify(given) : (textField(fields, 'arguments') ?? '')
    const read = readWhole(whole)
    return 'text' in read ? { ...read, whole } : { whole, problem: read.problem }
  }
  const typed = Object.fromEntries(
    form.map(({ name }) => [name, textField(fields, ARGUMENT_PREFIX + name) ?? ''] as const),
  )
  const read = readForm(form, typed)
  return 'text' in read
    ? { ...read, typed }
    : { typed, problems: read.problems, problem: 'Some arguments are not valid. Nothing was called.' }
}

/** Goes on with a call whose questions were answered. */
async function answeredQuestions(
  source: TrySource,
  request: ConsoleRequest,
  fields: FormFields,
): Promise<ConsoleAnswer> {
  const { choice, server, tool } = await chosenTool(source, request)
  const read = readWhole(textField(fields, 'given') ?? '')
  if ('problem' in read) throw new GatewayError('INVALID_INPUT', read.problem, { field: 'given' })
  const answers = {
    state: textField(fields, 'state') ?? '',
    isAccepted: textField(fields, 'verdict') === 'accept',
    typed: typedAnswers(fields),
  }
  const about = { isDryRun: false, arguments: read.text }
  const ended = await endOf(
    () => source.make({ server, tool: tool.name, ...about, answers }, request.user),
    about,
  )
  const form = schemaFields(tool.inputSchema)
  const typed = form && typedFor(form, read.text)
  return answerWith(choice, request, { ...(typed ? { typed } : { whole: read.text }), ended })
}

/** The most questions of one round. */
const MAX_QUESTIONS = 10

/** What was typed for each question. */
function typedAnswers(fields: FormFields): readonly Typed[] {
  return Array.from({ length: MAX_QUESTIONS }, (_, index) => {
    const prefix = `${ANSWER_PREFIX}${index}.`
    const own = Object.keys(fields).filter((name) => name.startsWith(prefix))
    return Object.fromEntries(own.map((name) => [name.slice(prefix.length), textField(fields, name) ?? '']))
  })
}

function answerWith(choice: Choice, request: ConsoleRequest, shown: Shown, status = 200): ConsoleAnswer {
  return {
    content: () => content(choice, request, shown),
    json: () => (shown.ended ? endedView(shown.ended) : { problem: shown.problem, problems: shown.problems }),
    status,
  }
}

function content(choice: Choice, request: ConsoleRequest, shown: Shown): Html {
  const { tool, tools, problem } = choice
  return html`<h1>Try it</h1>
<p class="lead">Call a tool by hand. It is tried first: nothing is done, and you see what would happen.</p>
${chooser(choice)}
${problem !== undefined && html`<p class="notice" role="alert">${problem}</p>`}
${tool ? toolContent(tool, request, shown) : tools && toolList(choice)}`
}

function chooser({ servers, server, tools = [], tool }: Choice): Html {
  const option = (name: string, chosen: string | undefined): Html =>
    html`<option value="${name}"${name === chosen && html` selected`}>${plainText(name)}</option>`
  return html`<form method="get" class="chooser">
<div><label for="server">Server</label><select id="server" name="server">${server === undefined && html`<option value="">Choose…</option>`}${servers.map((name) => option(name, server))}</select></div>
${
  tools.length > 0 &&
  html`<div><label for="tool">Tool</label><select id="tool" name="tool">${!tool && html`<option value="">Choose…</option>`}${tools.map(({ name }) => option(name, tool?.name))}</select></div>`
}
<button>Show</button></form>`
}

function toolList({ server = '', tools = [] }: Choice): Html {
  const rows = tools.map(({ name, title, risk }) => {
    const query = new URLSearchParams({ server, tool: name }).toString()
    return html`<li><a href="?${query}"><code>${displayWord(name)}</code></a>${title !== undefined && html` <span class="also">${displayWord(title)}</span>`} <span class="mark ${risk}">${riskWords[risk]}</span></li>`
  })
  return html`<h2>Tools <span class="count">${tools.length}</span></h2><ul class="choices">${rows}</ul>`
}

function toolContent(tool: TriedTool, request: ConsoleRequest, shown: Shown): Html {
  const { name, title, description, risk } = tool
  const { ended } = shown
  return html`<section aria-labelledby="tried"><h2 id="tried"><code>${displayWord(name)}</code>${title !== undefined && html` <span class="also">${displayWord(title)}</span>`} <span class="mark ${risk}">${riskWords[risk]}</span></h2>
${description !== undefined && html`<details class="about-tool" id="about-tool"><summary>Description</summary><p class="description">${description}</p></details>`}
${ended && endedHtml(ended, request)}
${ended?.kind === 'questions' ? false : formHtml(tool, request, shown)}</section>`
}

function formHtml(tool: TriedTool, { query, tokenField, user }: ConsoleRequest, shown: Shown): Html {
  const fields = schemaFields(tool.inputSchema)
  const isWhole = !fields || query.get('as') === 'json' || shown.whole !== undefined
  const { typed, whole, problems, problem } = shown
  const inputs =
    fields && !isWhole
      ? fieldsHtml(fields, { prefix: ARGUMENT_PREFIX, typed, problems })
      : html`<div class="field"><label for="arguments">Arguments as JSON</label>
<textarea id="arguments" name="arguments" rows="8" spellcheck="false" autocapitalize="none">
${plainText(whole ?? '{}')}</textarea></div>`
  const isEmpty = fields && !isWhole && fields.length === 0
  const asJson = new URLSearchParams({ ...Object.fromEntries(query), as: 'json' }).toString()
  const canCall = hasRole(user, 'operator')
  return html`<form method="post" class="fields" novalidate>
${tokenField}
<h3>Arguments</h3>
${problem !== undefined && html`<p class="notice" role="alert">${problem}</p>`}
${isEmpty && html`<p class="about">It takes none.</p>`}
${inputs}
<div class="acts"><button class="main" name="action" value="dry_run">Try without effect</button>
${canCall && html`<button name="action" value="call">Call it</button>`}</div>
${!canCall && html`<p class="size">Only an operator can make the call itself.</p>`}
${fields && !isWhole && fields.length > 0 && html`<p class="size"><a href="?${asJson}">Write the arguments as JSON</a></p>`}
<details id="schema"><summary>Schema of the arguments</summary>${displayJson(JSON.stringify(tool.inputSchema ?? null, null, 2), 'Schema')}</details>
</form>`
}

function endedHtml(ended: Ended, request: ConsoleRequest): Html {
  switch (ended.kind) {
    case 'error':
      return errorHtml(ended.error)
    case 'questions':
      return questionsHtml(ended, request)
    case 'result':
      return ended.report ? reportHtml(ended.report) : resultHtml(ended.result)
  }
}

function box(kind: string, title: string, inner: HtmlPart): Html {
  return html`<section class="item ended ${kind}" aria-labelledby="ended" role="status"><h3 id="ended">${title}</h3>${inner}</section>`
}

function errorHtml({ code, message, extra: { suggestion } }: GatewayError): Html {
  return box(
    'failed',
    'It was refused, or it failed',
    html`<p>${message}</p>${suggestion !== undefined && html`<p class="next">${suggestion}</p>`}<p class="size"><code>${code}</code></p>`,
  )
}

/** What a dry run found out. */
function reportHtml(report: Readonly<Record<string, unknown>>): Html {
  const { confirmation, undo, cost, scopes, idempotency } = report
  const asked = asObject(confirmation)
  const undone = asObject(undo)
  const rows: (readonly [string, Html | string | false])[] = [
    ['A person is asked', asked.required === true ? html`<strong>${textOf(asked.message)}</strong>` : 'no'],
    [
      'By whom',
      asked.decided_by !== undefined &&
        (asked.decided_by === 'others' ? 'other people' : 'the user of the client'),
    ],
    ['Unless', asked.unless !== undefined && 'it can be undone exactly'],
    [
      'Undo',
      undo !== undefined &&
        `${textOf(undone.how)}${undone.rule === undefined ? '' : `: ${textOf(undone.rule)}`}${undone.reason === undefined ? '' : `: ${textOf(undone.reason)}`}`,
    ],
    ['Cost', cost !== undefined && JSON.stringify(cost)],
    ['Scopes', asList(scopes).length > 0 && asList(scopes).map(textOf).join(' ')],
    ['Idempotency', textOf(asObject(idempotency).outcome).replaceAll('_', ' ')],
  ]
  const given = JSON.stringify(report.arguments ?? report.arguments_omitted ?? {}, null, 2)
  return box(
    'tried',
    report.would_run === false
      ? 'Nothing was done. The call would not run'
      : 'Nothing was done. The call would run',
    html`<dl>${rows.map(([label, text]) => text !== false && html`<dt>${label}</dt><dd>${text}</dd>`)}</dl>
<h4>What the server would get</h4>${displayJson(given, 'Arguments')}`,
  )
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined ? '' : (JSON.stringify(value) ?? '')
}

function resultHtml(result: Payload): Html {
  const { content: blocks, structuredContent, isError } = result.fields
  const texts = asList(blocks).map((block, index) => blockHtml(asObject(block), index))
  return box(
    isError === true ? 'failed' : 'made',
    isError === true ? 'The tool returned an error' : 'Done',
    html`${texts}${structuredContent !== undefined && html`<h4>Structured content</h4>${displayJson(JSON.stringify(structuredContent, null, 2), 'Structured content')}`}`,
  )
}

/** A block of a result: its text, or what else it is. */
function blockHtml(block: Readonly<Record<string, unknown>>, index: number): Html {
  const { type, text, data, mimeType, uri } = block
  const embedded = asObject(block.resource)
  const own = [text, embedded.text].find((each) => typeof each === 'string')
  if (typeof own === 'string') return linesHtml(own, `Text ${index + 1}`)
  const encoded = [data, embedded.blob].find((each) => typeof each === 'string')
  const about = [type, mimeType ?? embedded.mimeType, uri ?? embedded.uri].filter(
    (each) => typeof each === 'string',
  )
  const size = typeof encoded === 'string' ? [`${encoded.length} characters of base64`] : []
  return html`<p class="about">${[...about, ...size].join(', ')}</p>`
}

/** The questions of a call as one form. */
function questionsHtml(
  { questions, state, arguments: given }: Extract<Ended, { kind: 'questions' }>,
  { tokenField }: ConsoleRequest,
): Html {
  const parts = questions.map(
    (
      { of, message, url, fields, typed, problems },
      index,
    ) => html`<p class="size">${of === 'gateway' ? 'The gateway asks before the call is made:' : 'The server asks:'}</p>
<p class="message">${message}</p>
${url !== undefined && /^https?:/.test(url) && html`<p><a rel="noreferrer" href="${url}">Open ${url}</a></p>`}
${fieldsHtml(fields, { prefix: `${ANSWER_PREFIX}${index}.`, typed, problems })}`,
  )
  return box(
    'asked',
    'A person is asked',
    html`<form method="post" class="fields" novalidate>${tokenField}<input type="hidden" name="action" value="answer">
<input type="hidden" name="state" value="${state}"><input type="hidden" name="given" value="${given}">
${parts}
<div class="acts"><button name="verdict" value="decline">Decline</button><button class="main" name="verdict" value="accept">Accept</button></div></form>`,
  )
}

function chosenView({ servers, server, tools, tool, problem }: Choice): object {
  return {
    servers,
    server,
    tools: tools?.map(({ name, risk }) => ({ name, risk })),
    ...(tool && { tool: { name: tool.name, risk: tool.risk, input_schema: tool.inputSchema } }),
    problem,
  }
}

function endedView(ended: Ended): object {
  if (ended.kind === 'error') return { error: ended.error.data }
  if (ended.kind === 'result') return { result: ended.result.value }
  return { questions: ended.questions, state: ended.state }
}

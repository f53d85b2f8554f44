/** The approval pages and their JSON equivalents: list, and decide. Programs decide with a bearer token. */
import type { HttpBindings } from '@hono/node-server'
import type { Hono } from 'hono'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { asObject } from '../../core/json/json.ts'
import { setOwn } from '../../core/json/read.ts'
import {
  mayDecide,
  type Approval,
  isMistyped,
  type Approvals,
  type Decision,
  approvalView,
} from '../../records/approvals.ts'
import type { PauseState } from '../../records/pause.ts'
import { editableText, editProblems, type Edits, isEdit, readEdit } from '../../records/edits.ts'
import {
  ARGUMENT_PREFIX,
  approvalPage,
  approvalsPage,
  EDITED_VERDICT,
  mayEdit,
  MAX_REASON_LENGTH,
} from './approval-page.ts'
import {
  answerJson,
  type FormFields,
  isProgram,
  type PageContext,
  type PageEntry,
  TERMINAL,
  textField,
} from './page-entry.ts'
import { type PageUser, requireRole } from './page-users.ts'

/** The approvals of the present store, and the only way in which a gateway decides on them. */
export interface Deciding {
  approvals(): Approvals
  /** The pause of writes that stops calls of a server; undefined if none does. */
  pauseFor(server: string): PauseState | undefined
  /** Decides on a call that waits, and has it audited. @throws what `Approvals.decide` throws */
  decide(id: string, decision: Omit<Decision, 'at'>): Promise<Approval>
}

/** What the approval pages need from the gateway. */
export interface ConfirmOptions extends Deciding {
  /** The input schema of a tool; undefined if it is not known. */
  inputSchema(upstream: string, tool: string): Promise<unknown>
  /** In milliseconds since 1970. */
  now(): number
}

/** The titles of refusals of these pages. */
const area = {
  name: 'confirm',
  titles: {
    403: 'You may not decide this call',
    404: 'Approval not found',
    409: 'Already decided',
    410: 'Approval expired',
  },
  notFound: 'Repeat the call to request a new approval.',
}

/** Adds the pages on which people approve calls. */
export function addConfirmPages(
  app: Hono<{ Bindings: HttpBindings }>,
  entry: PageEntry,
  options: ConfirmOptions,
): void {
  new ApprovalPages(entry, options).addTo(app)
}

class ApprovalPages {
  readonly #entry: PageEntry
  readonly #options: ConfirmOptions

  constructor(entry: PageEntry, options: ConfirmOptions) {
    this.#entry = entry
    this.#options = options
  }

  addTo(app: Hono<{ Bindings: HttpBindings }>): void {
    const withApprover = (
      serve: (context: PageContext, pageUser: PageUser) => Promise<Response>,
    ): ((context: PageContext) => Promise<Response>) =>
      this.#entry.guarded(area, (context) =>
        this.#entry.withUser(context, (pageUser) => {
          requireRole(pageUser, 'approver')
          return serve(context, pageUser)
        }),
      )

    app.get(
      '/confirm',
      withApprover((context, pageUser) => this.#list(context, pageUser)),
    )
    app.get(
      '/confirm/:id',
      withApprover(async (context, pageUser) =>
        this.#answerApproval(context, pageUser, { approval: await this.#find(context, pageUser) }),
      ),
    )
    const post = this.#entry.guarded(area, (context) =>
      this.#entry.withForm(context, (pageUser, fields) => this.#settle(context, pageUser, fields)),
    )
    app.post('/confirm', post)
    app.post('/confirm/:id', post)
  }

  async #find(context: PageContext, pageUser: PageUser): Promise<Approval> {
    const id = context.req.param('id') ?? ''
    const approvals = this.#options.approvals()
    const approval = await approvals.find(id)
    if (!approval) throw (await approvals.isExpired(id)) ? expired() : unknown()
    if (mayDecide(approval, pageUser)) return approval
    throw new GatewayError('PERMISSION_DENIED', whoMayDecide(approval, pageUser))
  }

  async #decidableBy(pageUser: PageUser): Promise<readonly Approval[]> {
    return (await this.#options.approvals().pending()).filter((each) => mayDecide(each, pageUser))
  }

  /** The id of the approval that the page offers next: a later one, or else the first of the others. */
  async #nextFor(pageUser: PageUser, { id, createdAt }: Approval): Promise<string | undefined> {
    const others = (await this.#decidableBy(pageUser)).filter((each) => each.id !== id)
    return (others.find((each) => each.createdAt >= createdAt) ?? others[0])?.id
  }

  async #answerApproval(context: PageContext, pageUser: PageUser, result: FormResult): Promise<Response> {
    const { approval, problem, ...typed } = result
    if (isProgram(context)) {
      const [field = 'typed'] = Object.keys(typed.argumentProblems ?? {})
      const why = typed.argumentProblems?.[field] ?? problem
      if (why !== undefined) throw new GatewayError('INVALID_INPUT', why, { field })
      return answerJson(context, approvalView(approval), 200)
    }
    const token = await this.#entry.guard.token(approval.id, pageUser)
    const next = await this.#nextFor(pageUser, approval)
    const now = this.#options.now()
    const pause = this.#options.pauseFor(approval.upstream)
    const page = approvalPage({ ...typed, approval, pageUser, token, problem, next, now, pause })
    return this.#entry.answer(context, { ...page, kind: 'approval' }, problem === undefined ? 200 : 400)
  }

  async #list(context: PageContext, pageUser: PageUser): Promise<Response> {
    const decidable = await this.#decidableBy(pageUser)
    if (isProgram(context)) return answerJson(context, { approvals: decidable.map(approvalView) }, 200)
    const page = approvalsPage(decidable, this.#options.now())
    return this.#entry.answer(context, { ...page, kind: 'approval' }, 200)
  }

  async #settle(context: PageContext, pageUser: PageUser, fields: FormFields): Promise<Response> {
    requireRole(pageUser, 'approver')
    const form = formOf(fields)
    const approval = await this.#find(context, pageUser)
    await this.#entry.mustBeIntended(context, approval.id, { user: pageUser, fields })
    const { decide, inputSchema } = this.#options
    const result = await carryOut(approval, { pageUser, form, decide, inputSchema })
    return this.#answerApproval(context, pageUser, result)
  }
}

function unknown(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'No such approval.')
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'The time to decide this call is over.', {
    reason: 'expired',
    status: 410,
  })
}

interface DecisionContext {
  readonly pageUser: PageUser
  readonly form: Form
  readonly decide: Deciding['decide']
  readonly inputSchema: ConfirmOptions['inputSchema']
}

/** An approval after a form was submitted. */
interface FormResult {
  readonly approval: Approval
  /** What is wrong with the form, and with single arguments in it, as they were typed. */
  readonly problem?: string
  readonly argumentProblems?: Readonly<Record<string, string>>
  readonly typedArguments?: Form['arguments']
}

/** Carries out a submitted form. @throws INVALID_INPUT without a verdict, and what `Approvals.decide` throws */
export async function carryOut(
  approval: Approval,
  { pageUser, form, decide, inputSchema }: DecisionContext,
): Promise<FormResult> {
  const { verdict, reason, typed, remember, arguments: typedArguments, isEdited } = form
  if (!verdict)
    throw new GatewayError('INVALID_INPUT', 'The verdict must be approved or denied.', { field: 'verdict' })
  if (isMistyped(approval, { verdict, entered: typed }))
    return { approval, problem: 'The typed text does not match. Nothing was decided.' }
  // A person who typed something else does not mean the arguments as they were.
  const isOther = Object.entries(typedArguments ?? {}).some(([name, text]) =>
    isEdit(text, editableOf(approval, name)),
  )
  if (typedArguments && isOther && !isEdited) return { approval, problem: UNCLEAR, typedArguments }
  if (isEdited && !mayEdit(pageUser))
    throw new GatewayError(
      'PERMISSION_DENIED',
      'A program that decides with a token cannot change arguments.',
    )
  const { edited, ...wrong } =
    typedArguments && isEdited ? await readArguments(approval, typedArguments, inputSchema) : {}
  if (Object.keys(wrong).length > 0) return { approval, ...wrong }
  const after = await decide(approval.id, {
    by: pageUser.by,
    via: pageUser.via,
    verdict,
    ...(reason !== undefined && { reason }),
    ...(remember && { remember }),
    ...(edited && { edited }),
  })
  return { approval: after }
}

const UNCLEAR =
  'Arguments were changed: choose “Approve with these arguments”, or write what was there before. Nothing was decided.'

/** The value of an argument that may be changed; undefined if it may not. */
function editableOf({ arguments: given, editable = [] }: Approval, name: string): unknown {
  return editable.includes(name) ? given[name] : undefined
}

/** The changed arguments of a form, or what is wrong with them. */
async function readArguments(
  approval: Approval,
  typedArguments: NonNullable<Form['arguments']>,
  inputSchema: ConfirmOptions['inputSchema'],
): Promise<Omit<FormResult, 'approval'> & { readonly edited?: Edits }> {
  const { arguments: given, upstream, tool } = approval
  const edited: Record<string, string> = {}
  const problems: Record<string, string> = {}
  for (const [name, text] of Object.entries(typedArguments)) {
    try {
      const edit = readEdit(text, editableOf(approval, name))
      if (edit !== undefined) setOwn(edited, name, edit)
    } catch (error) {
      setOwn(problems, name, asGatewayError(error).message)
    }
  }
  const schema = await inputSchema(upstream, tool)
  const argumentProblems = { ...editProblems(schema, given, edited), ...problems }
  if (Object.keys(argumentProblems).length > 0)
    return {
      problem: 'The changed arguments are not valid. Nothing was decided.',
      argumentProblems,
      typedArguments,
    }
  if (Object.keys(edited).length === 0)
    return { problem: 'No argument was changed. Nothing was decided.', typedArguments }
  return { edited }
}

/** Explains why a person may not decide, and who may. */
function whoMayDecide({ kind, approvers, caller }: Approval, { by, via }: PageUser): string {
  const you = `You are ${by}.`
  if (kind === 'page') {
    const how = via === 'token' ? ', not by a token' : ''
    const named = approvers.length === 0 ? '' : ` or one of ${approvers.join(', ')}`
    return `${you} This call must be decided by the person who made it${named}${how}. ${TERMINAL}`
  }
  if (by === caller) return `${you} A caller cannot approve their own call: another person must decide.`
  return `${you} This call needs the approval of ${approvers.length === 1 ? '' : 'one of '}${approvers.join(', ')}.`
}

/** The fields of a submitted form. */
interface Form {
  readonly verdict?: Decision['verdict']
  readonly reason?: string
  readonly typed?: string
  /** The arguments as they are typed, and whether they are approved. */
  readonly arguments?: Readonly<Record<string, string>>
  readonly isEdited?: true
  /** The approval shall apply to later calls too. */
  readonly remember?: true
}

export function formOf(fields: FormFields): Form {
  const isEdited = fields.verdict === EDITED_VERDICT
  const verdict = isEdited
    ? 'approved'
    : (['approved', 'denied'] as const).find((each) => each === fields.verdict)
  const reason = textField(fields, 'reason')?.trim()
  if (reason !== undefined && reason.length > MAX_REASON_LENGTH)
    throw new GatewayError('INVALID_INPUT', `A reason may have at most ${MAX_REASON_LENGTH} characters.`, {
      field: 'reason',
    })
  const isRemembered = verdict === 'approved' && isTrue(fields.remember)
  const typed = textField(fields, 'typed')
  return {
    ...(verdict && { verdict }),
    ...(reason !== undefined && reason !== '' && { reason }),
    ...(typed !== undefined && { typed }),
    ...(verdict === 'approved' && { arguments: typedArgumentsOf(fields) }),
    ...(isEdited && { isEdited }),
    ...(isRemembered && { remember: true }),
  }
}

/** The fields of arguments, or the member `arguments` of JSON. */
function typedArgumentsOf(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const typed = Object.entries(fields).flatMap(([name, value]) =>
    name.startsWith(ARGUMENT_PREFIX) && typeof value === 'string'
      ? [[name.slice(ARGUMENT_PREFIX.length), value] as const]
      : [],
  )
  const values = Object.entries(asObject(fields.arguments)).map(
    ([name, value]) => [name, editableText(value)] as const,
  )
  return Object.fromEntries([...typed, ...values])
}

/** A ticked checkbox, or its JSON equivalent. @throws INVALID_INPUT */
function isTrue(value: unknown): boolean {
  if (value === undefined || value === false) return false
  if (value === true || value === 'on' || value === 'true') return true
  throw new GatewayError('INVALID_INPUT', 'remember must be true or false.', { field: 'remember' })
}

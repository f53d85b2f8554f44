/**
 * The console of the owner, at `/console`: a table of pages with the actions of their forms. All of them have the sign-in of
 * the approval pages, ask for a role, check that a form came from a page of the gateway, and have every action audited. They
 * work without scripts; with them, a page follows what happens (`live.ts`). A program gets JSON, and acts with
 * `{"action": …}`.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Hono } from 'hono'
import type { OrderStep } from '../../core/audit-step.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { html, type Html } from './html.ts'
import { addLiveStream, type LiveOptions, liveScript } from './live.ts'
import {
  answerJson,
  type FormFields,
  isProgram,
  type PageContext,
  type PageEntry,
  textField,
} from './page-entry.ts'
import type { PageRole } from '../../core/auth-settings.ts'
import { type PageUser, requireRole } from './page-users.ts'
import { type FramedPage, type Place, rootOf } from './shell.ts'

/** A request for a page of the console, and who makes it. */
export interface ConsoleRequest {
  readonly user: PageUser
  /** The parts of the path that the page names with a colon. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** The relative URL of the front page: `${root}console/needs`. */
  readonly root: string
  /** The field that every form of the page needs. */
  readonly tokenField: Html
  /** In milliseconds since 1970. */
  readonly now: number
}

/** What a page shows: HTML for a person, the same facts as JSON for a program. */
export interface ConsoleAnswer {
  /** Default: the title of the page. */
  readonly title?: string
  content(): Html
  json(): object
  /** Default: 200. */
  readonly status?: number
  /** Where a browser is sent in place of the content, relative to the path of the page. */
  readonly redirect?: string
}

/** What a form of a page does. */
interface ConsoleAction {
  readonly role: PageRole
  /** Said on the page after it: a sentence, the same for all uses. */
  readonly done?: string
  /** What it is for the audit log; absent where it is audited by what it calls. */
  order?(request: ConsoleRequest, fields: FormFields): Omit<OrderStep, 'by' | 'via' | 'code'>
  /** Does it. Resolves with what to show, or with nothing: then the browser is sent back to the page. */
  run(request: ConsoleRequest, fields: FormFields): Promise<ConsoleAnswer | undefined>
}

/** A page of the console. */
export interface ConsolePage {
  /** Its path, with parts such as `:name`. */
  readonly path: string
  readonly title: string
  /** Its label in the navigation; absent for pages that others link to. */
  readonly place?: string
  /** Whether the number of things that need the reader is beside its label. */
  readonly hasCount?: true
  /** Who sees it: page users with one of these roles. */
  readonly roles: readonly PageRole[]
  /** The topics that it follows (`LiveOptions`): the elements with `data-live` and an id are replaced when one changes. */
  readonly topics?: readonly string[]
  /** A script that it runs besides those of all pages. */
  readonly script?: string
  readonly width?: FramedPage['width']
  /** @throws RESOURCE_NOT_FOUND, and what becomes the page of an error */
  answer(request: ConsoleRequest): Promise<ConsoleAnswer>
  /** The actions of its forms, by the value of the field `action`. */
  readonly actions?: Readonly<Record<string, ConsoleAction>>
}

/** What the console needs. */
export interface ConsoleOptions {
  readonly pages: readonly ConsolePage[]
  readonly live: LiveOptions
  /** Called after each action, and for each that failed. */
  onAction(step: OrderStep): void
  /** In milliseconds since 1970. */
  now(): number
}

/** The places of the navigation. */
export function placesOf(pages: readonly ConsolePage[]): readonly Place[] {
  return pages.flatMap(({ path, place: label, roles, hasCount }) =>
    label === undefined ? [] : [{ path, label, roles, ...(hasCount && { hasCount }) }],
  )
}

const area = { name: 'console', titles: {} }

/** The purpose of the tokens of all forms of the console. */
const FORM_PURPOSE = 'console'

/** Adds the pages of the console. */
export function addConsolePages(
  app: Hono<{ Bindings: HttpBindings }>,
  entry: PageEntry,
  options: ConsoleOptions,
): void {
  const { pages } = options
  addLiveStream(app, entry, options.live)
  for (const page of pages) {
    app.get(
      page.path,
      entry.guarded(area, (context) =>
        entry.withUser(context, async (user) => {
          requireRole(user, ...page.roles)
          const request = await requestOf(context, { entry, options, user })
          return show(context, { entry, page, answer: await page.answer(request) })
        }),
      ),
    )
    // Also of pages without actions: the code is posted to the page that was asked for.
    app.post(page.path, entry.guarded(area, actionOf(page, entry, options)))
  }
  if (!pages.some(({ path }) => path === '/console')) app.get('/console', toFirstPlace(entry, pages))
}

/** Sends a reader of `/console` to the first place that the reader may see. */
function toFirstPlace(
  entry: PageEntry,
  pages: readonly ConsolePage[],
): (context: PageContext) => Promise<Response> {
  return entry.guarded(area, (context) =>
    entry.withUser(context, async (user) => {
      const place = pages.find(
        ({ place: label, roles }) => label !== undefined && roles.some((role) => user.roles.includes(role)),
      )
      if (!place) requireRole(user, 'viewer')
      context.header('location', place?.path.slice(1) ?? './')
      return context.body(null, 303, { 'cache-control': 'no-store' })
    }),
  )
}

function actionOf(
  page: ConsolePage,
  entry: PageEntry,
  options: ConsoleOptions,
): (context: PageContext) => Promise<Response> {
  return (context) =>
    entry.withForm(context, async (user, fields) => {
      requireRole(user, ...page.roles)
      await entry.mustBeIntended(context, FORM_PURPOSE, { user, fields })
      const name = textField(fields, 'action') ?? ''
      const action = page.actions && Object.hasOwn(page.actions, name) ? page.actions[name] : undefined
      if (!action) throw new GatewayError('INVALID_INPUT', 'No such action.', { field: 'action' })
      requireRole(user, action.role)
      const request = await requestOf(context, { entry, options, user })
      const answer = await audited(action, { request, fields, options })
      if (answer) return show(context, { entry, page, answer })
      if (isProgram(context)) return answerJson(context, { done: name }, 200)
      // Relative, because a reverse proxy may have added a prefix to the path that the browser uses.
      const query = new URLSearchParams({ ...Object.fromEntries(request.query), done: name })
      context.header('location', `${context.req.path.replace(/^.*\//, '')}?${query.toString()}`)
      return context.body(null, 303, { 'cache-control': 'no-store' })
    })
}

interface Acting {
  readonly request: ConsoleRequest
  readonly fields: FormFields
  readonly options: ConsoleOptions
}

/** Runs an action, and has it audited with how it ended. @throws what it throws */
async function audited(
  action: ConsoleAction,
  { request, fields, options }: Acting,
): Promise<ConsoleAnswer | undefined> {
  const { by, via } = request.user
  const order = action.order?.(request, fields)
  const end = (code?: string): void => {
    if (order) options.onAction({ ...order, by, via, ...(code !== undefined && { code }) })
  }
  try {
    const answer = await action.run(request, fields)
    end()
    return answer
  } catch (error) {
    end(asGatewayError(error).code)
    throw error
  }
}

interface Requesting {
  readonly entry: PageEntry
  readonly options: ConsoleOptions
  readonly user: PageUser
}

async function requestOf(
  context: PageContext,
  { entry, options, user }: Requesting,
): Promise<ConsoleRequest> {
  const token = await entry.guard.token(FORM_PURPOSE, user)
  return {
    user,
    params: context.req.param(),
    query: new URL(context.req.url).searchParams,
    root: rootOf(context.req.path),
    tokenField: html`<input type="hidden" name="token" value="${token}" />`,
    now: options.now(),
  }
}

interface Showing {
  readonly entry: PageEntry
  readonly page: ConsolePage
  readonly answer: ConsoleAnswer
}

async function show(context: PageContext, { entry, page, answer }: Showing): Promise<Response> {
  const { title = page.title, status = 200 } = answer
  if (isProgram(context)) return answerJson(context, answer.json(), status)
  if (answer.redirect !== undefined) {
    context.header('location', answer.redirect)
    return context.body(null, 303, { 'cache-control': 'no-store' })
  }
  const done = context.req.query('done') ?? ''
  const said = page.actions && Object.hasOwn(page.actions, done) ? page.actions[done]?.done : undefined
  const topics = ['needs', ...(page.topics ?? [])].join(' ')
  const content = html`${said !== undefined && html`<p class="done" role="status">${said}</p>`}
    <div data-topics="${topics}" data-live-url="${rootOf(context.req.path)}console/live">
      ${answer.content()}
    </div>`
  const script = `${liveScript}${page.script ?? ''}`
  return entry.answer(
    context,
    { title, content, width: page.width ?? 'wide', kind: 'console', script, isLive: true },
    status,
  )
}

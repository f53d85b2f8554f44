import type { AuthSettings } from '../core/auth-settings.ts'
import type { Approval } from '../records/approvals.ts'
import type { Visitor } from './visitors.ts'

const TERMINAL = 'Whoever operates the gateway can decide with gatehouse approvals.'

/** What a person who can not be served is told. */
export function explain(
  status: number,
  message: string,
  { users }: AuthSettings,
): { readonly title: string; readonly lines: readonly string[] } {
  const title = titles[status] ?? 'This did not work'
  if (status === 401 && users.length === 0) {
    return {
      title,
      lines: [
        'Callers of this gateway are known by tokens, which browsers do not have.',
        'To decide in a browser, set auth.jwt.client_id in the configuration, or add people to auth.basic.',
        TERMINAL,
      ],
    }
  }
  if (status === 404)
    return { title, lines: [message, 'Let the call be made again: it then asks for another one.'] }
  return { title, lines: [message] }
}

/** Why a person may not decide, and who may. */
export function whoMayDecide({ kind, approvers, caller }: Approval, { by, via }: Visitor): string {
  const you = `You are ${by}.`
  if (kind === 'page') {
    const how = via === 'token' ? ', and no token' : ''
    const named = approvers.length === 0 ? '' : ` or one of ${approvers.join(', ')}`
    return `${you} This call takes the person who makes it${named}${how}. ${TERMINAL}`
  }
  if (by === caller) return `${you} Who makes a call does not approve it: it takes another person.`
  return `${you} This call takes ${approvers.length === 1 ? 'the approval of' : 'an approval of'} ${approvers.join(', ')}.`
}

const titles: Readonly<Record<number, string>> = {
  400: 'This can not be understood',
  401: 'Who are you?',
  403: 'This is not for you to decide',
  404: 'There is nothing to decide',
  405: 'There is nothing to decide',
  409: 'This is decided already',
  410: 'It is too late',
  413: 'This is too long',
  415: 'This can not be understood',
  429: 'Too many tries',
  503: 'This does not work just then',
}

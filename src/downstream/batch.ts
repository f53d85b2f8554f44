import type { Reply } from '../bridge/session.ts'

/** Joins the answers to a batch: an array, or single events where the reply has become a stream. */
export function joinReplies(reply: Reply & { readonly isStream: boolean }, count: number): Reply {
  const answers: string[] = []
  let left = count
  return {
    emit: (message) => reply.emit(message),
    end: (message) => {
      if (message !== undefined) answers.push(message)
      if (--left > 0) return
      if (!reply.isStream) return reply.end(answers.length > 0 ? `[${answers.join(',')}]` : undefined)
      for (const answer of answers) reply.emit(answer)
      reply.end()
    },
  }
}

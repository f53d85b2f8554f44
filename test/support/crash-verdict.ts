import type { Ending } from './crash-run.ts'
import type { Effect } from './effects.ts'

/** What is wrong with how keys ended, given what was really done; nothing where all is well. */
export function faultsOf(endings: readonly Ending[], effects: readonly Effect[]): readonly string[] {
  const byKey = Map.groupBy(effects, ({ key }) => key)
  return endings.flatMap(({ call, answer, wrong, attempts }) => {
    const done = byKey.get(call.key) ?? []
    const told = `${call.key} (${call.tool}, ${attempts} attempts)`
    if (done.length > 1) return [`${told} was done ${done.length} times`]
    if (wrong !== undefined) return [`${told} ended with ${wrong}`]
    if (!answer) return []
    if (done.length === 0) return [`${told} was answered, and not done`]
    if (answer.structured['id'] === done[0]?.id) return []
    return [`${told} was answered with ${answer.text}, and what was done is ${JSON.stringify(done[0])}`]
  })
}

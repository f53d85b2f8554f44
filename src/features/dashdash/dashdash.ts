import { serverObject, specVersion } from '../../documents/dashdash.ts'
import { introducing, soonPortrait } from '../discovered.ts'
import type { Feature } from '../feature.ts'
import { describing } from './lists.ts'
import { KEY, NAME, type Settings, settingsSchema } from './settings.ts'

/** Describes servers, tools and resources for those who write skills about them. */
export const dashdash: Feature<Settings | false> = {
  name: NAME,
  place: 'features',
  schema: settingsSchema,
  create: (settings, deps) => {
    const said = introducing(async (call) => {
      const { upstream } = call.target
      if (settings(upstream) === false) return undefined
      const portrait = await soonPortrait(NAME, call, deps)
      if (!portrait) return undefined
      const object = deps.document(portrait, 'server', serverObject)
      const aiHelp = portrait.front.hasHelp
      const guide = aiHelp && deps.hasTools ? '\nCall `ai_help` for the guide.' : ''
      return {
        fields: { dashdash: object },
        meta: { [KEY]: object },
        experimental: { dashdash: object },
        extensions: { [KEY]: { specVersion, aiHelp } },
        instructions: `${deps.document(portrait, 'purpose', ({ purpose }) => purpose)}${guide}`,
      }
    })
    const lists = describing(deps, (upstream) => settings(upstream) !== false)
    return { shown: (method) => (method === 'server/discover' ? said : lists(method)) }
  },
}

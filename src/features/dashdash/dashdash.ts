import { serverObject, specVersion } from '../../documents/dashdash.ts'
import type { ServerDescription } from '../../documents/portrait.ts'
import { skillUri } from '../../documents/skill.ts'
import { introducing, soonPortrait } from '../discovered.ts'
import type { Feature } from '../feature.ts'
import { describing } from './lists.ts'
import { KEY, NAME, type Settings, settingsSchema } from './settings.ts'

/** Describes servers, tools and resources for those who write skills about them. */
export const dashdash: Feature<Settings | false> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const said = introducing(async (call) => {
      const { upstream } = call.target
      if (settings(upstream) === false) return undefined
      const portrait = await soonPortrait(NAME, call, deps)
      if (!portrait) return undefined
      const object = deps.document(portrait, 'server', serverObject)
      return {
        fields: { dashdash: object },
        meta: { [KEY]: object },
        experimental: { dashdash: object },
        extensions: { [KEY]: { specVersion, aiHelp: portrait.front.hasHelp } },
        instructions: `${deps.document(portrait, 'purpose', ({ purpose }) => purpose)}${guideOf(portrait)}`,
      }
    })
    const lists = describing(deps, (upstream) => settings(upstream) !== false)
    return { shown: (method) => (method === 'server/discover' ? said : lists(method)) }
  },
}

/** Where the guide is, for models that call only what lists have. */
function guideOf(portrait: ServerDescription): string {
  const { isHelpListed, isSkillListed } = portrait.front
  if (isHelpListed) return '\nCall `ai_help` for the guide.'
  return isSkillListed ? `\nThe guide is the resource \`${skillUri(portrait)}\`.` : ''
}

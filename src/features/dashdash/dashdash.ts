import { serverObject, specVersion } from '../../documents/dashdash.ts'
import type { ServerDescription } from '../../documents/portrait.ts'
import { skillUri } from '../../documents/skill.ts'
import { introducing, descriptionSoon } from '../discovered.ts'
import type { Feature } from '../feature.ts'
import { describeLists } from './lists.ts'
import { META_KEY, NAME, type Settings, settingsSchema } from './settings.ts'

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
      const description = await descriptionSoon(NAME, call, deps)
      if (!description) return undefined
      const object = deps.document(description, 'server', serverObject)
      return {
        fields: { dashdash: object },
        meta: { [META_KEY]: object },
        experimental: { dashdash: object },
        extensions: { [META_KEY]: { specVersion, aiHelp: description.front.hasHelp } },
        instructions: `${deps.document(description, 'purpose', ({ purpose }) => purpose)}${guideOf(description)}`,
      }
    })
    const lists = describeLists(deps, (upstream) => settings(upstream) !== false)
    return { rewriteResult: (method) => (method === 'server/discover' ? said : lists(method)) }
  },
}

/** Where the guide is, for models that call only what lists have. */
function guideOf(description: ServerDescription): string {
  const { isHelpListed, isSkillListed } = description.front
  if (isHelpListed) return '\nCall `ai_help` for the guide.'
  return isSkillListed ? `\nThe guide is the resource \`${skillUri(description)}\`.` : ''
}

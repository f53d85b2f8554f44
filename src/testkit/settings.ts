/** The settings with which a gateway records or replays one server: nothing of the gateway's own is between. */
import { featureSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'

/** Settings for one server as it is: its own names, no features, nothing stored. */
export function plainSettings(settings: Settings, server: UpstreamSettings): Settings {
  const { revision } = server
  return {
    ...settings,
    listen: { ...settings.listen, isStrict: false },
    store: { kind: 'memory' },
    observe: { metrics: false },
    metaTools: 'off',
    hasMethods: false,
    features: {},
    names: [],
    upstreams: [
      // One recording has one era.
      { ...server, renames: {}, tools: {}, revision: revision === 'follow' ? 'auto' : revision },
    ],
  }
}

/**
 * Settings for one server whose calls are neither confirmed nor stored, with only some features: as configured, or as in
 * `others` where they are off there.
 */
export function settingsWith(
  names: readonly string[],
  settings: Settings,
  { server, others }: { readonly server: UpstreamSettings; readonly others?: Settings },
): Settings {
  const plain = plainSettings(settings, server)
  const features = names.flatMap((name) => {
    const own = featureSettings(settings, name, server.name) || (others && featureSettings(others, name))
    return own ? [[name, { common: own, upstreams: {} }] as const] : []
  })
  return {
    ...plain,
    hasMethods: true,
    features: Object.fromEntries(features),
    upstreams: plain.upstreams.map((each) => ({ ...each, renames: server.renames, tools: server.tools })),
  }
}

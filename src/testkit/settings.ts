/** The settings with which a gateway records or replays one server: nothing of the gateway's own is between. */
import type { Settings, UpstreamSettings } from '../core/settings.ts'

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

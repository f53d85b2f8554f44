/** The folders of files, as the settings name them: one for all servers, and others for single ones. */
import type { Finding } from '../../core/finding.ts'
import { folderProblem, plantedProblem } from '../../store/private-folder.ts'
import type { Services, SettingsOf } from '../feature.ts'
import { GatewayFiles, ReferenceFiles } from './files.ts'
import { limitsOf } from './keep.ts'

type Deps = Pick<Services, 'log' | 'scope' | 'servers'>

interface FolderSettings {
  readonly folder?: string
  /** How large all files may be, in bytes. */
  readonly total: number
}

/** The folders of files, one for each place that the settings name. */
export class FileFolders {
  readonly #settings: SettingsOf<FolderSettings | false>
  readonly #deps: Deps
  readonly #folders = new Map<string | undefined, ReferenceFiles>()

  constructor(settings: SettingsOf<FolderSettings | false>, deps: Deps) {
    this.#settings = settings
    this.#deps = deps
  }

  at(folder: string | undefined): ReferenceFiles {
    const { log, scope } = this.#deps
    const files = scope.once(GatewayFiles)
    const { total } = limitsOf(this.#settings())
    const known = this.#folders.get(folder) ?? new ReferenceFiles({ folder, total, files, log })
    this.#folders.set(folder, known)
    return known
  }

  /** Those of all servers, used or not. */
  all(): readonly ReferenceFiles[] {
    return [...new Set(this.#paths())].map((folder) => this.at(folder))
  }

  /** The folders of the settings that cannot be used. */
  problems(): readonly Finding[] {
    return [undefined, ...this.#deps.servers.names()].flatMap((upstream): readonly Finding[] => {
      const { folder } = this.#settings(upstream) || {}
      const isInherited = upstream !== undefined && folder === (this.#settings() || {}).folder
      const problem =
        folder === undefined || isInherited ? undefined : (folderProblem(folder) ?? plantedProblem(folder))
      const place = upstream === undefined ? [] : ['upstreams', upstream]
      const path = [...place, 'features', 'references', 'folder']
      return problem === undefined ? [] : [{ path, message: problem }]
    })
  }

  #paths(): readonly (string | undefined)[] {
    return [undefined, ...this.#deps.servers.names()].map(
      (upstream) => (this.#settings(upstream) || {}).folder,
    )
  }
}

/**
 * Programs that check the files of `deploy`: helm, kubeconform with the schemas of Kubernetes, a decoder of the objects of the
 * Prometheus operator (`test/kubernetes`), and the loader of Compose. `scripts/kubernetes-tools.ts` builds them once, into the
 * cache of the user, from the versions named here; without Go or a network, the tests that need them are left out.
 */
import { spawnSync } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { isObject } from '../../src/core/json/json.ts'
import { inRepository } from './document.ts'
import { needs } from './needs.ts'

/** Where the programs are. */
export const toolFolder = join(
  process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'),
  'gatehouse-kubernetes',
)

/** Go packages of programs, by the file that each becomes. The file says the version, so that another one is built anew. */
export const goPrograms = {
  'helm-3.22.0': 'helm.sh/helm/v3/cmd/helm@v3.22.0',
  'kubeconform-0.7.0': 'github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0',
  'compose-2.16.2': 'github.com/compose-spec/compose-go/v2/cmd@v2.16.2',
} as const

/** The Python package that has the schemas of Kubernetes, and the versions that are checked: the oldest and the newest. */
export const schemaPackage = 'kubernetes-validate==1.37.0'
export const kubernetesVersions = ['1.29.0', '1.37.0'] as const

/** The decoder of `test/kubernetes`, by the version of the Prometheus operator. */
export const monitoringProgram = join(toolFolder, 'monitoring-0.82.2')

const helm = join(toolFolder, 'helm-3.22.0')
const kubeconform = join(toolFolder, 'kubeconform-0.7.0')
const compose = join(toolFolder, 'compose-2.16.2')

const needed = (program: string): ReturnType<typeof needs> =>
  needs({ program, get: 'npm run kubernetes-tools', isOptional: true })

export const needsHelm = needed(helm)
export const needsSchemas = needed(join(toolFolder, `v${kubernetesVersions[1]}-local-strict`))
export const needsMonitoring = needed(monitoringProgram)
export const needsCompose = needed(compose)

export const chart = inRepository('deploy/helm/gatehouse')

/** A value of an object of Kubernetes: what a test reads of it, it compares. */
// oxlint-disable-next-line typescript/no-explicit-any
type Parsed = any

/** An object of Kubernetes. */
export interface KubernetesObject {
  readonly kind: string
  readonly metadata: Parsed
  readonly spec?: Parsed
  readonly data?: Parsed
}

/** What the chart is rendered with: a file of its folder `ci`, and `--set-json` values by path. */
export interface Release {
  readonly values?: 'gateway' | 'single' | 'sidecar'
  readonly set?: Readonly<Record<string, unknown>>
}

/** Runs helm on the chart; `text` is what it printed. */
export function runHelm(
  command: 'lint' | 'template',
  { values, set = {} }: Release,
): { readonly isOk: boolean; readonly text: string } {
  const name = command === 'template' ? ['rel', '--namespace', 'agents'] : ['--strict']
  const file = values === undefined ? [] : ['--values', join(chart, 'ci', `${values}-values.yaml`)]
  const given = Object.entries(set).flatMap(([key, value]) => [
    '--set-json',
    `${key}=${JSON.stringify(value)}`,
  ])
  return run(helm, [command, ...name, chart, '--kube-version', kubernetesVersions[0], ...file, ...given])
}

/** The text of the objects that a release installs. @throws Error with the message of helm */
export function rendered(release: Release): string {
  const { isOk, text } = runHelm('template', release)
  if (!isOk) throw new Error(text)
  return text
}

/** The objects that a release installs. @throws Error with the message of helm */
export function objectsOf(release: Release): readonly KubernetesObject[] {
  return parseAllDocuments(rendered(release)).flatMap((document): readonly KubernetesObject[] => {
    const object: Parsed = document.toJS()
    return object === null ? [] : [object]
  })
}

/** Validates a text of objects against the schemas of a version of Kubernetes, without those of the Prometheus operator. */
export function conforms(
  objects: string,
  version: string,
): { readonly isOk: boolean; readonly text: string } {
  const place = join(toolFolder, '{{.NormalizedKubernetesVersion}}-local{{.StrictSuffix}}')
  const schemas = ['-schema-location', join(place, '{{.ResourceKind}}{{.KindSuffix}}.json')]
  const options = ['-strict', '-kubernetes-version', version, '-skip', 'ServiceMonitor,PrometheusRule']
  return run(kubeconform, [...options, ...schemas], objects)
}

/** Decodes objects of the Prometheus operator. */
export function decodes(objects: readonly object[]): { readonly isOk: boolean; readonly text: string } {
  return run(monitoringProgram, [], objects.map((each) => `${JSON.stringify(each)}\n`).join(''))
}

/** The project that these files of `deploy` make, as Compose loads it. @throws Error with the message of Compose */
export function composed(...files: readonly string[]): Parsed {
  const paths = files.map((file) => inRepository(`deploy/${file}`))
  const { isOk, text } = run(compose, ['-format', 'json', '-no-path-resolution', ...paths])
  const project: unknown = isOk ? JSON.parse(text) : undefined
  if (!isObject(project)) throw new Error(text)
  return project
}

function run(program: string, args: readonly string[], input?: string): { isOk: boolean; text: string } {
  const done = spawnSync(program, args, { encoding: 'utf8', ...(input !== undefined && { input }) })
  return { isOk: done.status === 0, text: done.status === 0 ? done.stdout : `${done.stdout}${done.stderr}` }
}

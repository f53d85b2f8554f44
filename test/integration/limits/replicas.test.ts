import { replicaTests } from '../../support/replicas.ts'

replicaTests(400)

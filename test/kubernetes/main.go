// Reads objects of the Prometheus operator, one JSON document a line, and decodes each as the operator does, but strictly: a
// field that the type does not have is an error. Prints what is wrong, and ends with 1.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	failed := false
	for lines.Scan() {
		var head struct{ Kind string }
		err := json.Unmarshal(lines.Bytes(), &head)
		var object any
		switch head.Kind {
		case "ServiceMonitor":
			object = &monitoring.ServiceMonitor{}
		case "PrometheusRule":
			object = &monitoring.PrometheusRule{}
		default:
			err = fmt.Errorf("unknown kind")
		}
		if err == nil {
			strict := json.NewDecoder(bytes.NewReader(lines.Bytes()))
			strict.DisallowUnknownFields()
			err = strict.Decode(object)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", head.Kind, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

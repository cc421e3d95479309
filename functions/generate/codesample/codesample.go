// Package codesample writes code that calls the operations of an OpenAPI document: as a command line with curl, in Go
// with shared/client, in TypeScript and Python with their packages, and with the command line tool. Everything in a
// sample follows from the operation and the example of its body, so that no sample is written by hand. The package does
// not run the samples; its tests do.
package codesample

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/openapi"
)

// Of returns the samples of the operations of a document by their ids. Operations that clients do not have, by their
// ids, get only the command line of curl. tool is the root of the command line tool.
func Of(document []byte, withoutClient []string, tool *cobra.Command) (map[string][]openapi.Sample, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	samples := map[string][]openapi.Sample{}
	ofTool := commands(tool)
	for _, o := range d.operations() {
		samples[o.ID] = []openapi.Sample{{Language: "Shell", Label: "curl", Source: curl(o)}}
		if slices.Contains(withoutClient, o.ID) {
			continue
		}
		inGo, err := golang(o)
		if err != nil {
			return nil, fmt.Errorf("write the Go sample of %s: %w", o.ID, err)
		}
		inTypeScript, err := typeScript(o)
		if err != nil {
			return nil, fmt.Errorf("write the TypeScript sample of %s: %w", o.ID, err)
		}
		inPython, err := python(o)
		if err != nil {
			return nil, fmt.Errorf("write the Python sample of %s: %w", o.ID, err)
		}
		samples[o.ID] = append(samples[o.ID],
			openapi.Sample{Language: "Go", Label: "Go", Source: inGo},
			openapi.Sample{Language: "TypeScript", Label: "TypeScript", Source: inTypeScript},
			openapi.Sample{Language: "Python", Label: "Python", Source: inPython})
		if len(ofTool[o.ID]) == 0 {
			continue
		}
		lines, err := commandLines(o, ofTool[o.ID])
		if err != nil {
			return nil, fmt.Errorf("write the command line of %s: %w", o.ID, err)
		}
		samples[o.ID] = append(samples[o.ID], openapi.Sample{Language: "Shell", Label: tool.Name(), Source: lines})
	}
	return samples, nil
}

// Command metafile shortens the bundler's report to what the console reads of it, with a line for each file, so that a
// review sees which files a change touches.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
)

// report is the part of esbuild's metafile that stays.
type report struct {
	Inputs  map[string]input  `json:"inputs"`
	Outputs map[string]output `json:"outputs"`
}

type input struct {
	Bytes int64 `json:"bytes"`
}

type output struct {
	EntryPoint string `json:"entryPoint,omitempty"`
	Imports    []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"imports,omitempty"`
}

func main() {
	if err := shorten("static/meta.json"); err != nil {
		log.Fatal(err)
	}
}

func shorten(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	var short bytes.Buffer
	short.WriteString("{\n\"inputs\": {\n")
	writeLines(&short, r.Inputs)
	short.WriteString("},\n\"outputs\": {\n")
	writeLines(&short, r.Outputs)
	short.WriteString("}\n}\n")
	return os.WriteFile(file, short.Bytes(), 0o644) //nolint:gosec // a file of the repository
}

// writeLines writes the members of an object.
func writeLines[T any](w *bytes.Buffer, members map[string]T) {
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			w.WriteString(",\n")
		}
		b, _ := json.Marshal(members[name])
		fmt.Fprintf(w, "%q: %s", name, b)
	}
	w.WriteByte('\n')
}

package console

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"agents.example/controlplane/shared/webfile"
)

// The parts of the app that the page names, by their source.
const (
	mainScript = "app/main.tsx"
	mainStyle  = "app/style/main.css"
	laterStyle = "app/style/later.css"
	icon       = "app/icon.svg"
)

// caching lets browsers keep a file forever, because a changed file has another name.
const caching = "public, max-age=31536000, immutable"

// bundle is what the bundler wrote.
type bundle struct {
	// files are the served files by name.
	files map[string]*webfile.File
	// entries are the names of the files by their source.
	entries map[string]string
	// preloads are the names of the scripts that the main script cannot start without, sorted.
	preloads []string
}

// metafile is the bundler's report.
type metafile struct {
	Outputs map[string]struct {
		EntryPoint string `json:"entryPoint"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	} `json:"outputs"`
}

func readBundle() (bundle, error) {
	report, err := static.ReadFile("static/meta.json")
	if err != nil {
		return bundle{}, err
	}
	var m metafile
	if err := json.Unmarshal(report, &m); err != nil {
		return bundle{}, fmt.Errorf("read the bundler's report: %w", err)
	}
	b := bundle{files: map[string]*webfile.File{}, entries: map[string]string{}}
	for output, o := range m.Outputs {
		contentType, known := contentTypes()[path.Ext(output)]
		if !known {
			return bundle{}, fmt.Errorf("the bundler wrote %s: add its type to contentTypes", output)
		}
		body, err := static.ReadFile(output)
		if err != nil {
			return bundle{}, err
		}
		b.files[path.Base(output)] = webfile.New(contentType, caching, body)
		if o.EntryPoint != "" {
			b.entries[o.EntryPoint] = path.Base(output)
		}
	}
	for _, source := range []string{mainScript, mainStyle, laterStyle, icon} {
		if b.entries[source] == "" {
			return bundle{}, fmt.Errorf("the bundler wrote no file for %s", source)
		}
	}
	b.preloads = m.imports(path.Join("static", b.entries[mainScript]))
	return b, nil
}

// imports returns the names of the files that a file imports as it starts, directly or not.
func (m metafile) imports(output string) []string {
	var names []string
	reached := []string{output}
	for i := 0; i < len(reached); i++ {
		for _, imported := range m.Outputs[reached[i]].Imports {
			if imported.Kind == "import-statement" && !slices.Contains(reached, imported.Path) {
				reached = append(reached, imported.Path)
				names = append(names, path.Base(imported.Path))
			}
		}
	}
	slices.Sort(names)
	return names
}

func contentTypes() map[string]string {
	return map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
}

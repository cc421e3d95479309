package system

import (
	"context"
	"embed"
	"sync"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

// playground holds the page and the files it loads, large ones compressed. Its README.md names their sources.
//
//go:embed playground/index.html playground/start.js playground/favicon.png playground/*.gz
var playground embed.FS

// monitoring holds what users start from to watch their agents: a dashboard of Grafana, and alerts and a scrape
// configuration of Prometheus.
//
//go:embed monitoring
var monitoring embed.FS

// assetCaching lets browsers cache a file for an hour: a new version of the page works with slightly older files.
const assetCaching = "public, max-age=3600"

// playgroundFiles returns the files that the page loads or that the description names, by their names there.
func playgroundFiles() (map[string]*webfile.File, error) {
	const script, style = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
	files := map[string]*webfile.File{}
	for name, contentType := range map[string]string{
		"start.js": script, "favicon.png": "image/png", "swagger-ui-bundle.js": script, "swagger-ui.css": style,
	} {
		body, err := playground.ReadFile("playground/" + name)
		if err == nil {
			files[name] = webfile.New(contentType, assetCaching, body)
			continue
		}
		if body, err = playground.ReadFile("playground/" + name + ".gz"); err != nil {
			return nil, err
		}
		files[name] = webfile.FromGzip(contentType, assetCaching, body)
	}
	for name, contentType := range map[string]string{
		"grafana-dashboard.json": jsonMedia, "prometheus-alerts.yaml": "application/yaml",
		"prometheus-scrape.yaml": "application/yaml",
	} {
		body, err := monitoring.ReadFile("monitoring/" + name)
		if err != nil {
			return nil, err
		}
		files[name] = webfile.New(contentType, assetCaching, body)
	}
	return files, nil
}

// playgroundAsset returns the handler of the files.
func playgroundAsset() function.Endpoint {
	files := sync.OnceValues(playgroundFiles)
	return function.Handle(func(_ context.Context, in webfile.Input) (webfile.Response, error) {
		all, err := files()
		if err != nil {
			return webfile.Response{}, err
		}
		file, known := all[in.Path.Asset]
		if !known {
			return webfile.Response{}, fault.New(fault.NotFound, "not_found",
				"The playground has no file with this name.")
		}
		return file.Answer(in.Header.AcceptEncoding)
	})
}

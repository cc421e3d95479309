// Package console serves the web app with which people manage their agents. The app is static files: it uses only the
// public API, with the token of its user, and this package has no rights of any kind.
package console

import (
	"context"
	"embed"
	"net/http"
	"sync"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webfile"
)

// The app is written in TypeScript. The result of the bundler is committed, so a clone needs no build step.
//
//go:generate rm -rf static
//go:generate go tool -modfile=../../.ci/tools/go.mod esbuild app/main.tsx app/style/main.css app/style/later.css app/icon.svg --loader:.svg=copy --bundle --minify --splitting --format=esm --target=es2022 --outdir=static --outbase=app --entry-names=[name]-[hash] --chunk-names=[name]-[hash] --metafile=static/meta.json --legal-comments=none --tsconfig=app/tsconfig.json --log-level=warning
//go:generate go run ./metafile

// static holds what the bundler wrote. Every name but that of its report has the hash of the content.
//
//go:embed static
var static embed.FS

// Options are what the app has to know before its user signs in. All of it is public.
type Options struct {
	// Issuer is the URL of the identity provider, and ClientID and Scopes are those with which the app asks it for
	// tokens. Without a ClientID the app offers no sign-in with the identity provider.
	Issuer, ClientID, Scopes string
	// Regions are those that take new agents.
	Regions []string
	// Support is where people reach support: an address with the scheme https or mailto; empty for none.
	Support string
}

// Routes serves the page and its files. Both are public: they contain no secrets.
func Routes(o Options) []function.Route {
	files := sync.OnceValues(readBundle)
	page := sync.OnceValues(func() (Page, error) {
		b, err := files()
		if err != nil {
			return Page{}, err
		}
		return render(o, b), nil
	})
	return []function.Route{
		{
			Name: "GetConsole", Method: http.MethodGet, Path: "/console", Access: function.Public,
			Status: http.StatusOK, Summary: "Open the console", Home: true,
			Handle: function.Handle(func(context.Context, function.Empty) (Page, error) { return page() }),
		},
		{
			Name: "GetConsoleAsset", Method: http.MethodGet, Path: "/console/{asset}", Access: function.Public,
			Status: http.StatusOK, Summary: "Get a file of the console",
			Handle: function.Handle(func(_ context.Context, in webfile.Input) (webfile.Response, error) {
				b, err := files()
				if err != nil {
					return webfile.Response{}, err
				}
				file, known := b.files[in.Path.Asset]
				if !known {
					return webfile.Response{}, fault.New(fault.NotFound, "not_found",
						"This version of the console has no file with this name. Load the page again.")
				}
				return file.Answer(in.Header.AcceptEncoding)
			}),
		},
	}
}

package backendtest

import (
	"context"
	"io"
	"strings"

	"agents.example/controlplane/shared/clientrelease"
)

// ClientsVersion is the version of the only clients that were published.
const ClientsVersion = "1.20261127.203023"

// published has one release, with the names of its files as their content.
type published struct{ *uses }

// Versions implements clientrelease.Store.
func (p published) Versions(context.Context) ([]string, error) {
	p.add("Clients")
	return []string{ClientsVersion}, nil
}

// Release implements clientrelease.Store.
func (p published) Release(context.Context, string) (clientrelease.Release, error) {
	p.add("Clients")
	r := clientrelease.Release{Version: ClientsVersion}
	for _, name := range clientrelease.Names(ClientsVersion) {
		r.Files = append(r.Files, clientrelease.File{
			Name: name, Object: clientrelease.FilesPrefix + name, SHA256: "00", Size: int64(len(name)),
		})
	}
	return r, nil
}

// Open implements clientrelease.Store.
func (p published) Open(_ context.Context, f clientrelease.File) (io.ReadCloser, error) {
	p.add("Clients")
	return io.NopCloser(strings.NewReader(f.Name)), nil
}

// Package images provides the container images of a node: a registry that holds programs of this machine, images that
// Docker saved to files, and images of other registries. It does not build programs, and it runs nothing.
package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Host is the registry in the references of images. A node maps it to the listener of Serve.
const Host = "agents.localhost"

// Options configure Serve.
type Options struct {
	// Dir holds the images' content. Serve replaces what an earlier one left there.
	Dir string
	// Insecure is the host and port of a registry without TLS. References without a host are of this registry. It may
	// be empty. Registries of the loopback interface need no TLS either.
	Insecure string
	// Roots is a file with certificates, which images of programs have as those that they trust. It may be empty.
	Roots string
	// Images maps names to where the images come from.
	Images map[string]Source
}

// Source says where an image comes from. Exactly one field is set.
type Source struct {
	// Programs is a directory of static programs, which the image has in /ko-app.
	Programs string `json:"programs,omitempty"`
	// Program is the file of a static program, which the image has in / and runs.
	Program string `json:"program,omitempty"`
	// Tarball is a file that `docker save` wrote, or one with an OCI layout. If it holds several images, "#" and the
	// name of one follow the file's name. Example: /tmp/agents.tar#agent:dev
	Tarball string `json:"tarball,omitempty"`
	// Reference is pulled from its registry, with the credentials of `docker login`.
	Reference string `json:"reference,omitempty"`
}

// Registry is a running registry.
type Registry struct {
	// References maps the names of Options.Images to references by digest.
	References map[string]string
	// Warnings say why pods of agents would not start with an image.
	Warnings []string

	server *http.Server
	done   chan struct{}
}

// Serve gets all images and then serves them on a listener, read-only. ctx bounds getting them. Close closes the
// listener, and so does an error.
func Serve(ctx context.Context, listener net.Listener, o Options) (_ *Registry, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, listener.Close())
		}
	}()
	s := store{dir: o.Dir, insecure: o.Insecure, roots: o.Roots}
	if err := s.create(); err != nil {
		return nil, err
	}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithBlobHandler(registry.NewDiskBlobHandler(s.blobs())))
	r := &Registry{References: map[string]string{}, done: make(chan struct{})}
	for _, named := range slices.Sorted(maps.Keys(o.Images)) {
		image, err := s.get(ctx, o.Images[named])
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", named, err)
		}
		if r.References[named], err = s.add(ctx, images, named, image); err != nil {
			return nil, fmt.Errorf("image %s: %w", named, err)
		}
		warnings, err := o.Images[named].warnings(image)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", named, err)
		}
		for _, w := range warnings {
			r.Warnings = append(r.Warnings, fmt.Sprintf("Image %s %s.", named, w))
		}
	}
	r.server = &http.Server{Handler: readOnly(images), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.done)
		_ = r.server.Serve(listener) // it returns when the server is closed
	}()
	return r, nil
}

// Close ends the registry.
func (r *Registry) Close() error {
	err := r.server.Close()
	<-r.done
	return err
}

// readOnly refuses requests that change images: pods of the node can reach the registry.
func readOnly(images http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			http.Error(w, "the registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		images.ServeHTTP(w, req)
	})
}

// store is the directory of the images' content.
type store struct{ dir, insecure, roots string }

// blobs is where the layout of a directory of images has its files, by digest.
func (s store) blobs() string { return filepath.Join(s.dir, "blobs") }

func (s store) create() error {
	if err := os.RemoveAll(s.blobs()); err != nil {
		return fmt.Errorf("remove earlier images: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.blobs(), "sha256"), 0o700); err != nil {
		return fmt.Errorf("create the directory of images: %w", err)
	}
	return nil
}

// get returns the image of a source for the platform of this machine.
func (s store) get(ctx context.Context, source Source) (image v1.Image, err error) {
	set := 0
	for _, value := range []string{source.Programs, source.Program, source.Tarball, source.Reference} {
		if value != "" {
			set++
		}
	}
	switch {
	case set != 1:
		return nil, errors.New("set exactly one of programs, program, tarball and reference")
	case source.Programs != "":
		image, err = s.programs(source.Programs)
	case source.Program != "":
		image, err = s.program(source.Program)
	case source.Tarball != "":
		image, err = s.tarball(ctx, source.Tarball)
	default:
		image, err = s.pull(ctx, source.Reference)
	}
	if err != nil {
		return nil, err
	}
	return image, checkPlatform(image)
}

// add writes an image to the store and its manifest to a registry of the store. It returns the image's reference.
func (s store) add(ctx context.Context, images http.Handler, named string, image v1.Image) (string, error) {
	repository, err := name.NewRepository(Host + "/" + named)
	if err != nil {
		return "", err
	}
	if err := layout.Path(s.dir).WriteImage(image); err != nil {
		return "", fmt.Errorf("copy its layers: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return "", err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut,
		"http://"+Host+"/v2/"+repository.RepositoryStr()+"/manifests/"+digest.String(), bytes.NewReader(manifest))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", string(mediaType))
	answer := &answer{header: http.Header{}}
	images.ServeHTTP(answer, req)
	if answer.status != http.StatusCreated {
		return "", fmt.Errorf("register its manifest: status %d", answer.status)
	}
	return repository.Digest(digest.String()).Name(), nil
}

// answer keeps the status of a handler that is called without a connection.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }

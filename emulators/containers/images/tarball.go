package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// tarball returns an image of a file that may have a name after "#".
func (s store) tarball(ctx context.Context, file string) (v1.Image, error) {
	file, named, _ := strings.Cut(file, "#")
	switch info, err := os.Stat(file); {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("no file %s", file)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", file)
	}
	entries, err := list(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("%s is not an image: read it as a tar archive: %w", file, err)
	}
	var image v1.Image
	switch {
	case slices.Contains(entries, "manifest.json"): // of docker save; newer versions add index.json
		image, err = s.saved(file, named)
	case slices.Contains(entries, "index.json"):
		image, err = s.fromLayout(file, named)
	default:
		return nil, fmt.Errorf("%s is not an image: it has neither manifest.json, as docker save writes it, nor the "+
			"index.json of an OCI layout", file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return image, nil
}

// list returns the paths in an archive.
func list(ctx context.Context, file string) (entries []string, err error) {
	r, err := open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it is only read
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return entries, nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		entries = append(entries, path.Clean(header.Name))
	}
}

// open opens an archive, which may be compressed.
func open(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(f)
	start, _ := buffered.Peek(2) // what reads the archive returns the error, too
	if !bytes.Equal(start, []byte{0x1f, 0x8b}) {
		return opened{buffered, f}, nil
	}
	r, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return opened{r, f}, nil
}

type opened struct {
	io.Reader
	io.Closer
}

// saved returns an image that docker save wrote. Its layers go into the store uncompressed.
func (s store) saved(file, named string) (v1.Image, error) {
	opener := func() (io.ReadCloser, error) { return open(file) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, image := range manifest {
		names = append(names, image.RepoTags...)
	}
	var tag *name.Tag
	switch {
	case named == "" && len(manifest) != 1:
		return nil, severalImages(names)
	case named != "":
		parsed, err := name.NewTag(named)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, func(other string) bool { return sameName(named, other) }) {
			return nil, noImageNamed(named, names)
		}
		tag = &parsed
	}
	image, err := tarball.Image(opener, tag)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(config.RootFS.DiffIDs) {
		return nil, fmt.Errorf("the file is damaged: it has %d of %d layers", len(layers), len(config.RootFS.DiffIDs))
	}
	stored := make([]v1.Layer, len(layers))
	for i, want := range config.RootFS.DiffIDs {
		if stored[i], err = s.copyLayer(layers[i], want); err != nil {
			return nil, err
		}
	}
	return assemble(config, stored...)
}

// copyLayer copies a layer to the store uncompressed, and checks the digest of its content.
func (s store) copyLayer(from v1.Layer, want v1.Hash) (v1.Layer, error) {
	content, err := from.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it is only read
	copied, err := s.addLayer(func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
	if err != nil {
		return nil, err
	}
	if copied.digest != want {
		return nil, fmt.Errorf("the file is damaged: layer %s has the content of %s", want, copied.digest)
	}
	return copied, nil
}

// layoutFile matches the files of an OCI layout.
const layoutFile = `^(index\.json|oci-layout|blobs/sha256/[0-9a-f]{64})$`

// fromLayout unpacks an OCI layout and returns an image of it.
func (s store) fromLayout(file, named string) (v1.Image, error) {
	dir, err := os.MkdirTemp(s.dir, "layout-")
	if err != nil {
		return nil, err
	}
	r, err := open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it is only read
	wanted := regexp.MustCompile(layoutFile)
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if name := path.Clean(header.Name); header.Typeflag == tar.TypeReg && wanted.MatchString(name) {
			if err := unpack(archive, filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	return fromIndex(index, named)
}

// unpack writes a file of a layout, and checks the content of those that are named by it.
func unpack(content io.Reader, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	want, got := filepath.Base(file), hex.EncodeToString(sum.Sum(nil))
	if filepath.Base(filepath.Dir(file)) == "sha256" && want != got {
		return fmt.Errorf("the file is damaged: blob sha256:%s has the content of sha256:%s", want, got)
	}
	return nil
}

func severalImages(names []string) error {
	if len(names) == 0 {
		return errors.New("it holds several images or none, and none has a name; save one image")
	}
	return fmt.Errorf("it holds several images (%s); name one after the file, for example FILE#%s",
		strings.Join(names, ", "), names[0])
}

func noImageNamed(named string, names []string) error {
	return fmt.Errorf("it holds no image %s, only %s", named, strings.Join(names, ", "))
}

// sameName reports whether two names are of the same image, such as agent and docker.io/library/agent:latest.
func sameName(a, b string) bool {
	first, err := name.NewTag(a)
	if err != nil {
		return a == b
	}
	second, err := name.NewTag(b)
	return err == nil && first.Name() == second.Name()
}

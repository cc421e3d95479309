package images

import (
	"archive/tar"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programsDir is where the control plane's image has its programs. Pods name them by this path.
const programsDir = "ko-app"

// user is the user and group of programs' processes. The user is a number, which runAsNonRoot needs.
const (
	user   = 65532
	config = "65532:65532"
)

// programs returns an image of the programs of a directory.
func (s store) programs(dir string) (v1.Image, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of its programs: %w", err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if info, err := e.Info(); err != nil {
			return nil, fmt.Errorf("read the directory of its programs: %w", err)
		} else if info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			files[programsDir+"/"+e.Name()] = filepath.Join(dir, e.Name())
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the directory %s has no executable file", dir)
	}
	return s.imageOf(files, nil)
}

// program returns an image that runs one program.
func (s store) program(file string) (v1.Image, error) {
	inside := filepath.Base(file)
	return s.imageOf(map[string]string{inside: file}, []string{"/" + inside})
}

// rootsFile is where programs look for the certificates that they trust.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// imageOf returns an image of one layer. files maps paths in the image to programs of this machine.
func (s store) imageOf(files map[string]string, entrypoint []string) (v1.Image, error) {
	paths := make([]string, 0, len(files))
	for path, file := range files {
		if err := checkProgram(file); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	if s.roots != "" {
		files[rootsFile] = s.roots
		paths = append(paths, rootsFile)
	}
	slices.Sort(paths)
	layer, err := s.addLayer(func(w io.Writer) error { return writeFilesystem(w, paths, files) })
	if err != nil {
		return nil, err
	}
	return assemble(&v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux",
		Config: v1.Config{User: config, Entrypoint: entrypoint, WorkingDir: "/"},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer.digest}},
	}, layer)
}

// assemble returns an image of layers that are in the store.
func assemble(file *v1.ConfigFile, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, file)
}

// checkProgram reports a program that an image without libraries cannot run.
func checkProgram(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is not a program for Linux: %w", file, err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
		return fmt.Errorf("%s is for %s, and this machine is %s; build it with GOARCH=%s", file, f.Machine, want,
			runtime.GOARCH)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, and its image has no libraries; build it with CGO_ENABLED=0",
				file)
		}
	}
	return nil
}

// writeFilesystem writes the layer of an image. It depends on the content of the programs only.
func writeFilesystem(w io.Writer, paths []string, files map[string]string) error {
	archive := tar.NewWriter(w)
	dirs := []tar.Header{
		{Name: "data/", Mode: 0o750, Uid: user, Gid: user},
		{Name: "tmp/", Mode: 0o1777},
	}
	if strings.HasPrefix(paths[len(paths)-1], programsDir+"/") {
		dirs = append(dirs, tar.Header{Name: programsDir + "/", Mode: 0o755})
	}
	for _, dir := range dirs {
		dir.Typeflag, dir.ModTime = tar.TypeDir, time.Unix(0, 0)
		if err := archive.WriteHeader(&dir); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := writeFile(archive, path, files[path]); err != nil {
			return fmt.Errorf("copy %s: %w", files[path], err)
		}
	}
	return archive.Close()
}

func writeFile(archive *tar.Writer, path, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: info.Size(), ModTime: time.Unix(0, 0),
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}

// addLayer adds an uncompressed layer to the store. Compressing it would only cost time: it does not leave the machine.
func (s store) addLayer(write func(io.Writer) error) (*layer, error) {
	f, err := os.CreateTemp(s.blobs(), "layer-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was renamed, or its directory is removed later
	defer f.Close()           //nolint:errcheck // it was closed, or failed
	sum := sha256.New()
	if err := write(io.MultiWriter(f, sum)); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	l := &layer{digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, size: info.Size()}
	l.file = filepath.Join(s.blobs(), l.digest.Algorithm, l.digest.Hex)
	return l, os.Rename(f.Name(), l.file)
}

// layer is an uncompressed layer in the store, so its digest is also that of its content.
type layer struct {
	file   string
	digest v1.Hash
	size   int64
}

func (l *layer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.file) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.file) }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }

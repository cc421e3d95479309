package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/emulators/storageemu"
	"agents.example/controlplane/shared/clientrelease"
)

// clientsBucket is the bucket of the published clients.
const clientsBucket = "local-builds"

// startStorage starts the bucket of the clients. Each start of a cloud publishes a version. A file is made when it is
// first read, because the tool of six platforms alone takes minutes to compile.
func (c *Cloud) startStorage(ctx context.Context) (part, error) {
	dir := filepath.Join(c.options.Dir, "storage")
	r := clientrelease.Release{Version: clientrelease.VersionAt(time.Now())}
	names := map[string]string{}
	for _, name := range clientrelease.Names(r.Version) {
		object := clientrelease.FilesPrefix + path.Base(name)
		names[object] = name
		r.Files = append(r.Files, clientrelease.File{Name: name, Object: object})
	}
	if err := writeRelease(dir, r); err != nil {
		return part{}, err
	}
	s, err := storageemu.Start(ctx, storageemu.Options{Dir: dir, Make: func(ctx context.Context, object string) error {
		name, ok := names[object]
		if !ok {
			return fmt.Errorf("%s: %w", object, fs.ErrNotExist)
		}
		return makeClient(ctx, r.Version, filepath.Join(dir, filepath.FromSlash(clientrelease.FilesPrefix)), name)
	}})
	if err != nil {
		return part{}, err
	}
	c.storage = s.Addr
	return part{name: "Cloud Storage", where: s.Addr, close: s.Close}, nil
}

func writeRelease(dir string, r clientrelease.Release) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.FromSlash(clientrelease.ReleaseObject(r.Version)))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("publish clients: %w", err)
	}
	return os.WriteFile(file, b, 0o644)
}

// makeClient makes a file of the clients. The program that does is compiled now, because most users of a cloud need
// none.
func makeClient(ctx context.Context, version, dir, name string) error {
	const maker = "agents.example/controlplane/functions/generate/clients"
	programs, err := gobuild.Programs(ctx, os.Stderr, "the maker of clients", maker)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(programs, path.Base(maker)), version, dir, name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make %s: %w\n%s", name, err, out)
	}
	return nil
}

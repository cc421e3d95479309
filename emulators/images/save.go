package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// searchPath is the $PATH of images.
const searchPath = "/opt/app/node_modules/.bin:/opt/node/bin:/usr/local/bin:/usr/bin:/bin"

// save writes the image as docker save does: one layer, its configuration, and a file that names both.
func (b builder) save() (err error) {
	layer, err := os.Open(filepath.Join(b.dir, "layer.tar"))
	if err != nil {
		return err
	}
	defer func() { _ = layer.Close() }()
	digest := sha256.New()
	size, err := io.Copy(digest, layer)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	config, err := b.config(hex.EncodeToString(digest.Sum(nil)))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{b.recipe.Name + ":" + b.version}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(b.dir, "image.tar"))
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	for _, part := range []struct {
		name    string
		size    int64
		content io.Reader
	}{
		{"config.json", int64(len(config)), bytes.NewReader(config)},
		{"layer.tar", size, layer},
		{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)},
	} {
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: part.size})
		}
		if err == nil {
			_, err = io.Copy(w, part.content)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// config is the image's configuration, in the form of the OCI.
func (b builder) config(layer string) ([]byte, error) {
	env := []string{"PATH=" + searchPath}
	for _, name := range slices.Sorted(maps.Keys(b.recipe.Env)) {
		env = append(env, name+"="+b.recipe.Env[name])
	}
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{
			"User": user + ":" + user, "Env": env, "Cmd": b.recipe.Start, "WorkingDir": "/data",
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
		"history": []map[string]any{{"created": time.Unix(0, 0).UTC(), "created_by": b.recipe.Name}},
	})
}

package podworker

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mount is a path of a container, and the directory of this machine that has its files.
type mount struct{ path, dir string }

type mounts []mount

// local returns the path on this machine of what may be a path of the container; other texts are returned as they are.
// Programs of a container have no other file system.
func (all mounts) local(text string) string {
	for _, m := range all {
		if rest, below := strings.CutPrefix(text, m.path); below && (rest == "" || strings.HasPrefix(rest, "/")) {
			return m.dir + rest
		}
	}
	return text
}

// mount makes the directories of a container's volumes. It returns that of the claim, or "". The volume named data goes
// first.
func (w *worker) mount(ctx context.Context, e *environment, c *corev1.Container) (data string, err error) {
	first := ""
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(w.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return "", fmt.Errorf("volume %q of the mount %s is unknown", m.Name, m.MountPath)
		}
		v, dir := w.pod.Spec.Volumes[i], w.dir
		switch {
		case v.PersistentVolumeClaim != nil:
			claim := v.PersistentVolumeClaim.ClaimName
			if dir, err = w.runtime.volume(ctx, w.pod.Namespace, claim); err != nil {
				return "", err
			}
			if first == "" || m.Name == "data" {
				data, first = dir, claim
			}
		case v.Projected != nil:
			dir = filepath.Join(w.dir, "volumes", m.Name)
			if err := e.project(ctx, dir, v.Projected.Sources); err != nil {
				return "", err
			}
		}
		e.mounts = append(e.mounts, mount{path: m.MountPath, dir: dir})
	}
	return data, nil
}

// project makes a directory with files from ConfigMaps and Secrets.
func (e *environment) project(ctx context.Context, dir string, sources []corev1.VolumeProjection) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a volume: %w", err)
	}
	for _, s := range sources {
		values, items := map[string][]byte{}, []corev1.KeyToPath{}
		switch {
		case s.ConfigMap != nil:
			config, err := e.config(ctx, s.ConfigMap.Name, isTrue(s.ConfigMap.Optional))
			if err != nil {
				return err
			}
			for key, value := range config.Data {
				values[key] = []byte(value)
			}
			items = s.ConfigMap.Items
		case s.Secret != nil:
			secret, err := e.secret(ctx, s.Secret.Name, isTrue(s.Secret.Optional))
			if err != nil {
				return err
			}
			values, items = secret.Data, s.Secret.Items
		}
		for _, item := range items {
			if err := writeItem(dir, item, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeItem writes the file of one key.
func writeItem(dir string, item corev1.KeyToPath, values map[string][]byte) error {
	value, ok := values[item.Key]
	if !ok {
		return fmt.Errorf("references non-existent config key: %s", item.Key)
	}
	file, mode := filepath.Join(dir, filepath.FromSlash(item.Path)), fs.FileMode(0o644)
	if item.Mode != nil {
		mode = fs.FileMode(*item.Mode) //nolint:gosec // the API server has checked it
	}
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		_ = os.Remove(file) // of an earlier start
		err = os.WriteFile(file, value, 0o600)
	}
	if err == nil {
		err = os.Chmod(file, mode)
	}
	if err != nil {
		return fmt.Errorf("write a file of a volume: %w", err)
	}
	return nil
}

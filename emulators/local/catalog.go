package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/images"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/image"
)

// catalog are entries of the catalog of images, and where their images come from.
type catalog struct {
	entries []image.Image
	// recipes are what Build makes, by the name that the entries have for it, and images what exists.
	recipes map[string]images.Source
	images  map[string]node.Image
	// programs are the directories of programs that simulated nodes run, by reference.
	programs map[string]string
}

// addAll adds entries.
func (c *catalog) addAll(names []string, real bool) error {
	for _, name := range names {
		if err := c.add(name, real); err != nil {
			return err
		}
	}
	return nil
}

// add adds an entry: a file, or the name of a recipe. Versions name their image as a file that docker save wrote, as a
// recipe, or as a reference; with simulated nodes, as a directory of programs. Files are relative to the entry's.
func (c *catalog) add(name string, real bool) error {
	text, err := os.ReadFile(name)
	dir := filepath.Dir(name)
	if r, unknown := images.Find(name); err != nil && unknown == nil {
		text, err = r.Catalog()
	}
	if err != nil {
		return fmt.Errorf("-catalog wants a file, or one of %s: %w", strings.Join(images.Recipes(), ", "), err)
	}
	var entry image.Image
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&entry); err != nil {
		return fmt.Errorf("%s is no entry of the catalog: %w", name, err)
	}
	for i := range entry.Versions {
		v := &entry.Versions[i]
		find := c.program
		if real {
			find = c.image
		}
		if v.Reference, err = find(entry.ID+"-"+v.Version, v.Reference, dir); err != nil {
			return fmt.Errorf("%s: version %s: %w", name, v.Version, err)
		}
	}
	c.entries = append(c.entries, entry)
	return nil
}

// image finds an image for a real node, and returns the name that the node's registry has for it.
func (c *catalog) image(name, from, dir string) (string, error) {
	source, isRecipe, err := images.ParseSource(from)
	switch {
	case err != nil:
		return "", err
	case isRecipe:
		c.recipes[name] = source
		return name, nil
	case looksLikeFile(from) && !filepath.IsAbs(from):
		from = filepath.Join(dir, from)
	}
	found, err := readImage(from)
	if err != nil {
		return "", err
	}
	c.images[name] = *found
	return name, nil
}

// program finds programs for simulated nodes, and makes a reference for them.
func (c *catalog) program(name, from, dir string) (string, error) {
	if !filepath.IsAbs(from) {
		from = filepath.Join(dir, from)
	}
	if info, err := os.Stat(filepath.Join(from, "entrypoint")); err != nil || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("image %q is no directory with a program entrypoint: simulated nodes run no images; "+
			"want -node real", from)
	}
	sum := sha256.Sum256([]byte(from))
	// The name of a repository has no capital letters and no plus signs, as versions may.
	reference := "agents.localhost/" + strings.ToLower(strings.ReplaceAll(name, "+", "-")) + "@sha256:" +
		hex.EncodeToString(sum[:])
	c.programs[reference] = from
	return reference, nil
}

// build builds what the recipes make.
func (c *catalog) build(ctx context.Context, out *command.Terminal) error {
	for name, source := range c.recipes {
		file, err := images.Build(ctx, source, lines{out})
		if err != nil {
			return err
		}
		c.images[name] = node.Image{Tarball: file}
	}
	return nil
}

// lines writes lines to a terminal.
type lines struct{ out *command.Terminal }

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	l.out.Line("%s", strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// pairs reads a flag that may be repeated, of the form KEY=VALUE.
func pairs(into map[string]string, form string) func(string) error {
	return func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("want %s", form)
		}
		into[key] = value
		return nil
	}
}

// first returns the entry whose image the demo's agent runs; nil if it runs the default one.
func (c *catalog) first() *image.Image {
	if i := slices.IndexFunc(c.entries, func(i image.Image) bool { return i.ID != image.FrontID }); i >= 0 {
		return &c.entries[i]
	}
	return nil
}

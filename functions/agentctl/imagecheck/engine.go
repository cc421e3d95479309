package imagecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// engine is a program that runs containers.
type engine string

// ErrNoEngine is the error of a machine that can run no containers.
var ErrNoEngine = errors.New("neither docker nor podman is installed: install one, or check the image with the local " +
	"cloud of the control plane")

// findEngine returns the named engine, or the first one that works: a docker without its daemon does not.
func findEngine(ctx context.Context, named string) (engine, error) {
	candidates := []string{"docker", "podman"}
	if named != "" {
		candidates = []string{named}
	}
	reason := ErrNoEngine
	for _, name := range candidates {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		if _, err := engine(name).run(ctx, "version"); err != nil {
			reason = err
			continue
		}
		return engine(name), nil
	}
	return "", reason
}

// run runs a command of the engine, and returns what it prints.
func (e engine) run(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, string(e), args...)
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(problems.String())
		return out.String(), fmt.Errorf("%s %s: %w: %s", e, args[0], errors.Join(err, context.Cause(ctx)), text)
	}
	return out.String(), nil
}

// get makes the engine have an image, and returns the name by which it knows it.
func (e engine) get(ctx context.Context, image string, progress func(string)) (string, error) {
	if info, err := os.Stat(image); err == nil && info.Mode().IsRegular() {
		progress("Loading " + image)
		out, err := e.run(ctx, "load", "--input", image)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(out) {
			for _, begin := range []string{"Loaded image: ", "Loaded image ID: ", "Loaded image(s): "} {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
					return name, nil
				}
			}
		}
		return "", fmt.Errorf("%s does not say which image %s has", e, image)
	}
	if _, err := e.inspect(ctx, image); err == nil {
		return image, nil
	}
	progress("Pulling " + image)
	_, err := e.run(ctx, "pull", "--quiet", image)
	return image, err
}

// facts are what an engine knows of an image.
type facts struct {
	OS           string `json:"Os"`
	Architecture string
	Config       struct{ User string }
}

func (e engine) inspect(ctx context.Context, image string) (facts, error) {
	var all []facts
	return one(ctx, e, &all, "image", "inspect", image)
}

// state is what an engine knows of a container.
type state struct {
	State struct {
		Running   bool
		ExitCode  int
		OOMKilled bool
	}
}

func (e engine) state(ctx context.Context, container string) (state, error) {
	var all []state
	return one(ctx, e, &all, "container", "inspect", container)
}

// one decodes what the engine prints about one object.
func one[T any](ctx context.Context, e engine, all *[]T, args ...string) (T, error) {
	var zero T
	out, err := e.run(ctx, args...)
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal([]byte(out), all); err != nil || len(*all) != 1 {
		return zero, errors.Join(fmt.Errorf("%s %s prints no description", e, args[0]), err)
	}
	return (*all)[0], nil
}

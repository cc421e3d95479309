package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrUnsupported is wrapped by errors that say what this system lacks to build images.
var ErrUnsupported = errors.New("images cannot be built here")

// user runs the programs of the image. It is in /etc/passwd, because Node.js looks there for its own user.
const user = "65532"

// programs are what Build runs, and the packages of Debian that have them.
func programs() map[string]string {
	return map[string]string{"mmdebstrap": "mmdebstrap", "npm": "npm", "tar": "tar"}
}

// Supported returns an error that wraps ErrUnsupported if this system cannot build images.
func Supported() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("%w: that needs Linux and root", ErrUnsupported)
	}
	for program, debian := range programs() {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf(
				"%w: %s is not installed, which is in Debian's package %s",
				ErrUnsupported,
				program,
				debian,
			)
		}
	}
	return nil
}

// Built reports whether an image is in the user's cache directory.
func Built(s Source) (bool, error) {
	file, err := s.file()
	if err != nil {
		return false, err
	}
	_, err = os.Stat(file)
	return err == nil, nil
}

// file is where the image is, or will be.
func (s Source) file() (string, error) {
	r, err := Find(s.Recipe)
	if err != nil {
		return "", err
	}
	name, err := r.key(s.Version)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "agents-controlplane", "images", name+".tar"), err
}

// Build returns a file as docker save writes it, in the user's cache directory, and builds it if it is not there.
// Progress goes to out.
func Build(ctx context.Context, s Source, out io.Writer) (file string, err error) {
	built, err := Built(s)
	if err == nil {
		file, err = s.file()
	}
	if err != nil || built {
		return file, err
	}
	if err := Supported(); err != nil {
		return "", err
	}
	r, err := Find(s.Recipe)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the next build does not look at it
	b := builder{recipe: r, version: s.Version, dir: work, out: out}
	if err := b.build(ctx); err != nil {
		return "", fmt.Errorf("build the image %s: %w", strings.TrimPrefix(s.String(), scheme), err)
	}
	return file, os.Rename(filepath.Join(work, "image.tar"), file)
}

// key names the image by everything that it is made of.
func (r Recipe) key(version string) (string, error) {
	files, err := r.own()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(struct {
		Recipe   Recipe
		Files    map[string][]byte
		Platform string
	}{r, files, runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return r.Name + "-" + version + "-" + hex.EncodeToString(sum[:6]), nil
}

// builder makes one image in a directory.
type builder struct {
	recipe  Recipe
	version string
	dir     string
	out     io.Writer
}

func (b builder) build(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Node.js " + b.recipe.Node, b.node},
		{b.recipe.Program + " " + b.version + " and what it needs from npm", b.npm},
		{"the recipe's files", func(context.Context) error { return b.own() }},
		{"Debian " + b.recipe.Suite, b.debian},
		{"the image", func(context.Context) error { return b.save() }},
	} {
		fmt.Fprintf(b.out, "Image %s %s: %s\n", b.recipe.Name, b.version, step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// stage is the directory with what is in /opt of the image.
func (b builder) stage(parts ...string) string {
	return filepath.Join(append([]string{b.dir, "opt"}, parts...)...)
}

// node unpacks Node.js, which npm has as a package for each platform.
func (b builder) node(ctx context.Context) error {
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("%w: npm has no Node.js for %s", ErrUnsupported, runtime.GOARCH)
	}
	packed, err := b.output(ctx, b.dir, "npm", "pack", "--silent", "node-linux-"+arch+"@"+b.recipe.Node)
	if err != nil {
		return fmt.Errorf("%w: npm's registry does not answer: %w", ErrUnsupported, err)
	}
	if err := os.MkdirAll(b.stage("node"), 0o755); err != nil {
		return err
	}
	return b.run(ctx, b.dir, "tar", "-xzf", strings.TrimSpace(packed), "-C", b.stage("node"), "--strip-components=1",
		"--no-same-owner")
}

// npm installs the program. Scripts of packages do not run: they would run as root.
func (b builder) npm(ctx context.Context) error {
	if err := os.MkdirAll(b.stage("app"), 0o755); err != nil {
		return err
	}
	return b.run(ctx, b.stage("app"), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev",
		"--loglevel=error", "--before="+b.recipe.Before, b.recipe.Program+"@"+b.version)
}

// own writes the recipe's own files.
func (b builder) own() error {
	files, err := b.recipe.own()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.stage("agent"), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(string(content), "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(b.stage("agent", name), content, mode); err != nil {
			return err
		}
	}
	return nil
}

// debian makes the image's file system.
func (b builder) debian(ctx context.Context) error {
	hooks := []string{
		`echo "agent:x:` + user + `:` + user + `::/data:/bin/sh" >> "$1/etc/passwd"`,
		`echo "agent:x:` + user + `:" >> "$1/etc/group"`,
		`chown -R 0:0 ` + b.stage() + ` && cp -a ` + b.stage() + ` "$1/"`,
	}
	packages := slices.Concat(b.recipe.Packages, b.recipe.Tools)
	for _, c := range b.recipe.Commands {
		hooks = append(hooks, `chroot "$1" env PATH=`+searchPath+` sh -ec "cd /opt/app/node_modules; `+c+`"`)
	}
	if len(b.recipe.Tools) > 0 {
		hooks = append(hooks, `chroot "$1" apt-get purge -y -q --autoremove `+strings.Join(b.recipe.Tools, " "))
	}
	args := []string{"--mode=root", "--variant=minbase", "--quiet", "--include=" + strings.Join(packages, ",")}
	for _, h := range hooks {
		args = append(args, "--customize-hook="+h)
	}
	return b.run(ctx, b.dir, "mmdebstrap", append(args, b.recipe.Suite, filepath.Join(b.dir, "layer.tar"))...)
}

// run runs a program. What it prints is in the error.
func (b builder) run(ctx context.Context, dir, program string, args ...string) error {
	_, err := b.output(ctx, dir, program, args...)
	return err
}

// output runs a program, with the recipe's Node.js first on its path, and returns what it prints.
func (b builder) output(ctx context.Context, dir, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+b.stage("node", "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	var problems strings.Builder
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, strings.TrimSpace(problems.String()))
	}
	return string(out), nil
}

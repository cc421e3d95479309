//go:build unix

package gcloud

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const javaHelp = "install Java 17 or newer (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`) and have it in PATH or JAVA_HOME"

// finder is what the search needs of the machine; tests bring their own machine.
type finder struct {
	getenv    func(string) string
	lookPath  func(string) (string, error)
	wellKnown []string
	// ask runs gcloud to ask for its directory. It takes a second, so it is asked last.
	ask func(ctx context.Context, gcloud string) (string, error)
}

func machine() finder {
	return finder{
		getenv:   os.Getenv, // where programs are installed is no configuration of the service
		lookPath: exec.LookPath, ask: askGcloud,
		wellKnown: []string{
			"/usr/lib/google-cloud-sdk", "/usr/share/google-cloud-sdk", "/opt/google-cloud-sdk",
			"/usr/local/google-cloud-sdk",
			"/opt/homebrew/share/google-cloud-sdk", "/usr/local/share/google-cloud-sdk",
			"/snap/google-cloud-sdk/current", "/snap/google-cloud-cli/current",
		},
	}
}

// find answers the java executable and the emulator's jar, or an error that says what to install.
func (f finder) find(ctx context.Context, emulator Emulator) (java, jar string, err error) {
	if jar, err = f.jar(ctx, emulator); err != nil {
		return "", "", err
	}
	if java, err = f.java(); err != nil {
		return "", "", fmt.Errorf("the %s emulator needs Java, which is %w: %w: %s", emulator.Name, ErrMissing, err,
			javaHelp)
	}
	return java, jar, nil
}

func (f finder) java() (string, error) {
	if home := f.getenv("JAVA_HOME"); home != "" {
		if java := filepath.Join(home, "bin", "java"); isFile(java) {
			return java, nil
		}
	}
	return f.lookPath("java")
}

func (f finder) jar(ctx context.Context, emulator Emulator) (string, error) {
	roots := []string{f.getenv("CLOUDSDK_ROOT"), f.getenv("CLOUDSDK_ROOT_DIR")}
	gcloud, gcloudErr := f.lookPath("gcloud")
	if gcloudErr == nil {
		if resolved, err := filepath.EvalSymlinks(gcloud); err == nil {
			roots = append(roots, filepath.Dir(filepath.Dir(resolved)))
		}
	}
	if home := f.getenv("HOME"); home != "" {
		roots = append(roots, filepath.Join(home, "google-cloud-sdk"))
	}
	for _, root := range append(roots, f.wellKnown...) {
		if jar := newest(root, emulator.Jar); jar != "" {
			return jar, nil
		}
	}
	if gcloudErr == nil {
		if root, err := f.ask(ctx, gcloud); err == nil {
			if jar := newest(root, emulator.Jar); jar != "" {
				return jar, nil
			}
		}
	}
	return "", fmt.Errorf("the %s emulator is %w: run `gcloud components install %s` or `apt-get install %s` (or set CLOUDSDK_ROOT to the Google Cloud SDK that has it)",
		emulator.Name, ErrMissing, emulator.Component, emulator.Package)
}

// newest answers the last match in root, so that the newest of several versions is taken, or nothing.
func newest(root, pattern string) string {
	if root == "" {
		return ""
	}
	matches, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(matches) == 0 {
		return ""
	}
	return slices.Max(matches)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func askGcloud(ctx context.Context, gcloud string) (string, error) {
	output, err := exec.CommandContext(ctx, gcloud, "info", "--format=value(installation.sdk_root)").Output()
	return strings.TrimSpace(string(output)), err
}

// explain adds what to do to the failures of an old or absent Java, which show only in the child's log.
func explain(err error) error {
	for _, sign := range []string{"UnsupportedClassVersionError", "Unable to locate a Java Runtime"} {
		if strings.Contains(err.Error(), sign) {
			return fmt.Errorf("%w: the Java that it needs is %w\n%s", err, ErrMissing, javaHelp)
		}
	}
	return err
}

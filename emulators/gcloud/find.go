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

const javaHelp = "install Java 17 or newer (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`) " +
	"and add it to PATH or set JAVA_HOME"

// finder searches a machine for an emulator. Tests replace its functions.
type finder struct {
	getenv    func(string) string
	lookPath  func(string) (string, error)
	wellKnown []string
	// askRoot asks gcloud for the SDK's directory. That takes a second, so it comes last.
	askRoot func(ctx context.Context, gcloud string) (string, error)
}

func thisMachine() finder {
	return finder{
		getenv:   os.Getenv, // the environment says where programs are installed, not how the service is configured
		lookPath: exec.LookPath, askRoot: askGcloud,
		wellKnown: []string{
			"/usr/lib/google-cloud-sdk", "/usr/share/google-cloud-sdk", "/opt/google-cloud-sdk",
			"/usr/local/google-cloud-sdk",
			"/opt/homebrew/share/google-cloud-sdk", "/usr/local/share/google-cloud-sdk",
			"/snap/google-cloud-sdk/current", "/snap/google-cloud-cli/current",
		},
	}
}

// find returns the java executable and the emulator's jar, or an error that says what to install.
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
		if jar := newestMatch(root, emulator.Jar); jar != "" {
			return jar, nil
		}
	}
	if gcloudErr == nil {
		if root, err := f.askRoot(ctx, gcloud); err == nil {
			if jar := newestMatch(root, emulator.Jar); jar != "" {
				return jar, nil
			}
		}
	}
	return "", fmt.Errorf("the %s emulator is %w: run `gcloud components install %s` or "+
		"`apt-get install %s` (or set CLOUDSDK_ROOT to a Google Cloud SDK that has it)",
		emulator.Name, ErrMissing, emulator.Component, emulator.Package)
}

// newestMatch returns the last match in root, which is the newest version, or "".
func newestMatch(root, pattern string) string {
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

// explainJavaError adds advice to an error whose log shows that Java is too old or missing.
func explainJavaError(err error) error {
	for _, sign := range []string{"UnsupportedClassVersionError", "Unable to locate a Java Runtime"} {
		if strings.Contains(err.Error(), sign) {
			return fmt.Errorf("%w: the Java version that it needs is %w\n%s", err, ErrMissing, javaHelp)
		}
	}
	return err
}

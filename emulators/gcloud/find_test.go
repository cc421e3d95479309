//go:build unix

package gcloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// toy is an emulator whose jar has a version in its name.
func toy() Emulator {
	return Emulator{
		Name: "toy", Jar: "platform/toy/lib/toy-*-all.jar", Component: "toy-emulator",
		Package: "google-cloud-cli-toy-emulator",
	}
}

// install makes a directory that looks like a Google Cloud SDK with jars of the versions.
func install(t *testing.T, versions ...string) string {
	t.Helper()
	root := t.TempDir()
	lib := filepath.Join(root, "platform", "toy", "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if err := os.WriteFile(filepath.Join(lib, "toy-"+version+"-all.jar"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func executable(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind_SearchesEveryPlace(t *testing.T) {
	t.Parallel()
	root := install(t, "1.0.0", "1.2.0")
	jar := filepath.Join(root, "platform", "toy", "lib", "toy-1.2.0-all.jar")
	empty := t.TempDir()
	linked := filepath.Join(t.TempDir(), "gcloud")
	if err := os.Symlink(executable(t, filepath.Join(root, "bin", "gcloud")), linked); err != nil {
		t.Fatal(err)
	}
	elsewhere := executable(t, filepath.Join(t.TempDir(), "bin", "gcloud"))
	home := filepath.Join(t.TempDir(), "java-home")
	homeJava := executable(t, filepath.Join(home, "bin", "java"))
	atHome := filepath.Join(t.TempDir(), "user")
	if err := os.MkdirAll(atHome, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(atHome, "google-cloud-sdk")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		env       map[string]string
		path      map[string]string
		wellKnown []string
		sdkRoot   string // what gcloud says
		java      string
		jarRoot   string
		wantErr   []string
	}{
		"CLOUDSDK_ROOT": {
			env:  map[string]string{"CLOUDSDK_ROOT": root},
			path: map[string]string{"java": "/j"}, java: "/j",
		},
		"CLOUDSDK_ROOT_DIR": {
			env:  map[string]string{"CLOUDSDK_ROOT_DIR": root},
			path: map[string]string{"java": "/j"}, java: "/j",
		},
		"a link to gcloud": {path: map[string]string{"gcloud": linked, "java": "/j"}, java: "/j"},
		"below the home directory": {
			env: map[string]string{"HOME": atHome}, path: map[string]string{"java": "/j"},
			java: "/j", jarRoot: filepath.Join(atHome, "google-cloud-sdk"),
		},
		"a well-known directory": {
			wellKnown: []string{empty, root}, path: map[string]string{"java": "/j"},
			java: "/j",
		},
		"gcloud says where": {
			path: map[string]string{"gcloud": elsewhere, "java": "/j"}, sdkRoot: root,
			java: "/j",
		},
		"JAVA_HOME before PATH": {
			env:  map[string]string{"CLOUDSDK_ROOT": root, "JAVA_HOME": home},
			path: map[string]string{"java": "/j"}, java: homeJava,
		},
		"JAVA_HOME without java": {
			env:  map[string]string{"CLOUDSDK_ROOT": root, "JAVA_HOME": empty},
			path: map[string]string{"java": "/j"}, java: "/j",
		},
		"no Java": {
			env:     map[string]string{"CLOUDSDK_ROOT": root},
			wantErr: []string{"toy emulator needs Java", "Java 17", "apt-get install openjdk-17-jre-headless"},
		},
		"no SDK": {
			path: map[string]string{"java": "/j"},
			wantErr: []string{
				"`gcloud components install toy-emulator`",
				"`apt-get install google-cloud-cli-toy-emulator`",
			},
		},
		"an SDK without the jar": {
			path: map[string]string{"gcloud": elsewhere, "java": "/j"}, sdkRoot: empty,
			wantErr: []string{"toy emulator is not installed"},
		},
		"gcloud fails": {
			path:    map[string]string{"gcloud": elsewhere, "java": "/j"},
			wantErr: []string{"toy emulator is not installed"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := finder{
				getenv:    func(key string) string { return test.env[key] },
				wellKnown: test.wellKnown,
				lookPath: func(name string) (string, error) {
					if path := test.path[name]; path != "" {
						return path, nil
					}
					return "", fmt.Errorf("%s: not found", name)
				},
				askRoot: func(context.Context, string) (string, error) {
					if test.sdkRoot == "" {
						return "", errors.New("gcloud is broken")
					}
					return test.sdkRoot, nil
				},
			}
			java, gotJar, err := f.find(t.Context(), toy())
			if test.wantErr != nil {
				for _, want := range test.wantErr {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error = %v, want it to contain %q", err, want)
					}
				}
				return
			}
			wantJar := jar
			if test.jarRoot != "" {
				wantJar = filepath.Join(test.jarRoot, "platform", "toy", "lib", "toy-1.2.0-all.jar")
			}
			if err != nil || java != test.java || gotJar != wantJar {
				t.Errorf("found %q, %q, %v; want %q, %q", java, gotJar, err, test.java, wantJar)
			}
		})
	}
}

func TestAskGcloud(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "gcloud")
	testtier.WriteProgram(t, script, "#!/bin/sh\necho \"/sdk for $*\"\n")
	got, err := askGcloud(t.Context(), script)
	if want := "/sdk for info --format=value(installation.sdk_root)"; err != nil || got != want {
		t.Errorf("askGcloud = %q, %v; want %q", got, err, want)
	}
}

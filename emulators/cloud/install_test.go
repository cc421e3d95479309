package cloud_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/clients"
	"agents.example/controlplane/shared/clientrelease"
	"agents.example/controlplane/shared/testtier"
)

// user works in an empty directory, and installs a client as the page /clients says.
type user struct {
	deployment
	dir string
	// version is that of the clients of the cloud.
	version string
	env     []string
}

// runs runs a command in the user's directory, and returns its output. A failure ends the test.
func (u user) runs(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = u.dir, 10*time.Second
	cmd.Env = append(cmd.Environ(), "AGENTS_BASE_URL="+u.Ready.BaseURL, "AGENTS_API_KEY="+u.Ready.APIKey, "GOWORK=off")
	cmd.Env = append(cmd.Env, u.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (u user) writes(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d deployment) newUser(t *testing.T, programs ...string) user {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("the client is not installed: %s is missing", p)
		}
	}
	var o clients.Overview
	if err := json.Unmarshal([]byte(d.call(t, "", http.MethodGet, "/clients", "").text), &o); err != nil {
		t.Fatal(err)
	}
	return user{deployment: d, dir: t.TempDir(), version: o.Version}
}

// testInstallations installs each client in an empty directory, and calls the cloud with it.
func testInstallations(t *testing.T, d deployment) {
	testtier.RequireFull(t, "compiles clients and runs package managers")
	t.Run("npm", func(t *testing.T) {
		t.Parallel()
		u := d.newUser(t, "npm", "node")
		u.writes(t, "package.json", `{"private": true, "type": "module"}`)
		u.runs(t, "npm", "install", "--no-audit", "--no-fund",
			d.Ready.BaseURL+"/clients/"+clientrelease.Tarball(u.version))
		u.writes(t, "me.js", `import { createClient } from "@agents.example/client";
const api = createClient({ baseURL: process.env.AGENTS_BASE_URL, token: process.env.AGENTS_API_KEY });
const { organization } = await api.GET("/api/v1/me");
console.log(organization.id);
`)
		u.wantOrganization(t, u.runs(t, "node", "me.js"))
		u.runs(t, "npm", "ci", "--no-audit", "--no-fund") // the lock file's checksum is that of the file
	})
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		u := d.newUser(t)
		u.env = []string{
			"GOPROXY=" + d.Ready.BaseURL + "/clients/go,off", "GONOSUMDB=" + clientrelease.GoModule,
			"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GOSUMDB=sum.golang.org",
		}
		u.runs(t, "go", "mod", "init", "example.test/user")
		u.runs(t, "go", "get", clientrelease.GoModule+"@latest")
		u.writes(t, "main.go", `package main

import (
	"context"
	"fmt"
	"os"

	"agents.example/controlplane/shared/client"
)

func main() {
	c, err := client.New(os.Getenv("AGENTS_BASE_URL"), client.StaticToken(os.Getenv("AGENTS_API_KEY")))
	if err != nil {
		panic(err)
	}
	me, err := c.GetMe(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(me.Organization.ID, client.Version())
}
`)
		u.runs(t, "go", "build", "./...")
		out := u.runs(t, "go", "run", ".")
		u.wantOrganization(t, out)
		if !strings.Contains(out, u.version) {
			t.Errorf("the program prints %q, want the version %s", out, u.version)
		}
		modules := u.runs(t, "go", "list", "-m", "all")
		if want := "example.test/user\n" + clientrelease.GoModule + " v" + u.version + "\n"; modules != want {
			t.Errorf("the user's modules are %q, want %q", modules, want)
		}
	})
	t.Run("pip", func(t *testing.T) {
		t.Parallel()
		u := d.newUser(t)
		u.runs(t, testtier.RequirePython(t), "-m", "venv", "by-address")
		u.runs(t, "by-address/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check",
			d.Ready.BaseURL+"/clients/"+clientrelease.Wheel(u.version))
		u.writes(t, "me.py", `import os
import agents_client
client = agents_client.Client(os.environ["AGENTS_BASE_URL"], os.environ["AGENTS_API_KEY"])
print(client.get_me().organization.id)
`)
		u.wantOrganization(t, u.runs(t, "by-address/bin/python", "me.py"))
		u.runs(t, testtier.RequirePython(t), "-m", "venv", "by-index")
		u.runs(t, "by-index/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--index-url",
			d.Ready.BaseURL+"/clients/python/", clientrelease.Python+"=="+u.version)
		u.wantOrganization(t, u.runs(t, "by-index/bin/python", "me.py"))
	})
	t.Run("agentctl", func(t *testing.T) {
		t.Parallel()
		u := d.newUser(t)
		here := clientrelease.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
		u.downloads(t, "/clients/"+clientrelease.LatestTool(here), "agentctl")
		if got, want := u.runs(t, "./agentctl", "version"), "agentctl version "+u.version+"\n"; got != want {
			t.Errorf("agentctl version = %q, want %q", got, want)
		}
		u.wantOrganization(t, u.runs(t, "./agentctl", "whoami"))
	})
}

// downloads stores the answer to a request as a program.
func (u user) downloads(t *testing.T, path, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Ready.BaseURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
	if err := os.WriteFile(filepath.Join(u.dir, name+".part"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	// A program that another test starts now may have inherited the file, and Linux runs no file that is open for
	// writing. No other process has that of cp.
	u.runs(t, "cp", name+".part", name)
	u.runs(t, "chmod", "+x", name)
}

func (u user) wantOrganization(t *testing.T, out string) {
	t.Helper()
	if !strings.Contains(out, u.Ready.OrganizationID) {
		t.Errorf("the program prints %q, want the organization %s", out, u.Ready.OrganizationID)
	}
}

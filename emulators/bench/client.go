package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"

	"agents.example/controlplane/emulators/dataplane"
)

const (
	firstView    = 120_000 // bytes
	toolStart    = 30      // milliseconds
	toolRounds   = 11
	toolPackages = "agents.example/controlplane/functions/cmd/agentctl"
)

// consoleFiles matches the addresses of the files that the console's page loads first.
var consoleFiles = regexp.MustCompile(`(?:src|href)="(console/[^"]*)"`)

// measureConsole counts P16: the bytes that a browser gets until the console shows its first view.
func measureConsole(ctx context.Context, l *environment, d *deployment) (Report, error) {
	page, err := d.download(ctx, "/console")
	if err != nil {
		return Report{}, err
	}
	files, sent := consoleFiles.FindAllSubmatch(page, -1), len(page)
	for _, f := range files {
		body, err := d.download(ctx, "/"+string(f[1]))
		if err != nil {
			return Report{}, err
		}
		sent += len(body)
	}
	return Report{Rows: []Row{{
		ID: "P16", What: "first view of the console", Ours: float64(sent), Limit: firstView, Unit: "bytes", Most: 1,
		Note: fmt.Sprintf("the page and %d files; tests in Chromium measure how soon a change is visible", len(files)),
	}}}, nil
}

// download returns the body of a public file as a browser receives it.
func (d *deployment) download(ctx context.Context, path string) ([]byte, error) {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d", path, w.Code)
	}
	return w.Body.Bytes(), nil
}

// measureTool measures P17: the CPU time of a start of the command line tool.
func measureTool(ctx context.Context, _ *environment) (Report, error) {
	dir, err := dataplane.BuildPackages(ctx, toolPackages)
	if err != nil {
		return Report{}, err
	}
	var r rounds
	for range toolRounds {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "agentctl"), "--version")
		if out, err := cmd.CombinedOutput(); err != nil {
			return Report{}, fmt.Errorf("agentctl --version: %w\n%s", err, out)
		}
		r.add(milliseconds(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()), toolStart)
	}
	row, err := r.row()
	row.ID, row.What, row.Unit, row.Most = "P17", "start of agentctl", "ms of CPU", 1
	return Report{Rows: []Row{row}}, err
}

//go:build unix

package firestoreemu

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

const (
	exportTimeout = 2 * time.Minute
	exportName    = "snapshot"
)

// Export writes all documents of one database below the directory dir, replacing an earlier export, and returns the
// path for Options.Import. After the import, every project has the documents in its database of the same id. The
// emulator's process writes the files, so dir must be absolute and, for an attached emulator, a directory of the
// emulator's machine. Only the same kind of emulator can read them.
func (e *Emulator) Export(ctx context.Context, project, database, dir string) (string, error) {
	if e.embedded != nil {
		path := filepath.Join(dir, exportName)
		if err := e.embedded.Export(project, database, path); err != nil {
			return "", fmt.Errorf("export database %s of project %s into %s: %w", database, project, dir, err)
		}
		return path, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	if err := e.post(ctx, fmt.Sprintf("/emulator/v1/projects/%s:export", project), map[string]string{
		"database": fmt.Sprintf("projects/%s/databases/%s", project, database), "export_directory": dir,
		"export_name": exportName,
	}); err != nil {
		return "", fmt.Errorf("export database %s of project %s into %s: %w", database, project, dir, err)
	}
	return filepath.Join(dir, exportName, exportName+".overall_export_metadata"), nil
}

func (e *Emulator) post(ctx context.Context, path string, parameters map[string]string) error {
	body, err := json.Marshal(parameters)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	reason, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return fmt.Errorf("the emulator answered %s: %s", response.Status, reason)
}

package agentctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/dataplane/archive"
)

// exportSnapshot saves the archive of a snapshot.
func (t *tool) exportSnapshot() *cobra.Command {
	to := ""
	c := t.snapshotCommand("export", "Save the data of a snapshot as a tar archive", "ExportSnapshot",
		func(ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot) error {
			if to == "-" {
				if t.app.Terminal.Out {
					return usagef("an archive is not for a terminal: name a file with --to, or redirect the output")
				}
				return t.saveSnapshot(ctx, api, a, s, t.app.Stdout)
			}
			name := to
			if name == "" {
				name = s.ID + ".tar"
			}
			return t.saveSnapshotFile(ctx, api, a, s, name)
		})
	c.Long = "Save the data of a snapshot as a tar archive, with what describes the agent: no secrets and no " +
		"credentials. The agent need not run. The tool checks the archive to its end. A new agent of any " +
		"organization begins with it: agentctl agents create --import-url"
	c.Example = "  agentctl snapshots export my-agent \"$SNAPSHOT_ID\" --to backup.tar\n" +
		"  agentctl snapshots export my-agent \"$SNAPSHOT_ID\" --to - | gzip > backup.tar.gz"
	c.Flags().StringVar(&to, "to", "", "the `FILE` to write, or - for the standard output (default SNAPSHOT_ID.tar)")
	return c
}

// saveSnapshotFile writes a file. What is incomplete never has its name, and no file is replaced.
func (t *tool) saveSnapshotFile(
	ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot, name string,
) error {
	if _, err := os.Lstat(name); err == nil {
		return usagef("the file %s exists: name another one with --to", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // with the mode 0600
	if err != nil {
		return fmt.Errorf("save the archive: %w", err)
	}
	err = t.saveSnapshot(ctx, api, a, s, file)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return err
	}
	t.note("Saved the archive as %s.", name)
	return nil
}

// saveSnapshot writes the archive of a snapshot, and checks it while it does.
func (t *tool) saveSnapshot(
	ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot, to io.Writer,
) error {
	content, err := api.ExportSnapshot(ctx, a.ID, s.ID)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // only read
	shown := &transferred{tool: t}
	summary, err := archive.Verify(io.TeeReader(content, io.MultiWriter(to, shown)))
	shown.end()
	if err != nil {
		return fmt.Errorf("the archive did not arrive as a whole; export it again: %w", err)
	}
	t.note("%d entries, %s of files.", summary.Entries, bytesText(float64(summary.Bytes)))
	return nil
}

// transferred shows how much has arrived, in one line of a terminal.
type transferred struct {
	tool  *tool
	bytes int64
	drawn time.Time
}

// Write implements io.Writer.
func (p *transferred) Write(text []byte) (int, error) {
	p.bytes += int64(len(text))
	if now := p.tool.app.Now(); p.tool.canRedraw() && now.Sub(p.drawn) >= redrawEvery {
		p.drawn = now
		p.show("\r%s received\x1b[K", bytesText(float64(p.bytes)))
	}
	return len(text), nil
}

func (p *transferred) end() {
	if !p.drawn.IsZero() {
		p.show("\r\x1b[K")
	}
}

func (p *transferred) show(format string, args ...any) {
	var line bytes.Buffer
	fmt.Fprintf(&line, format, args...)
	_, _ = p.tool.app.Stderr.Write(line.Bytes()) // a broken terminal ends no transfer
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sethvargo/go-envconfig"
	"golang.org/x/sys/unix"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/infra/archiveimport"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/archive"
)

// wait keeps a pod with a volume alive, so that commands can run next to it.
func wait(ctx context.Context, _ envconfig.Lookuper) error {
	<-ctx.Done()
	return nil
}

// exportVolume writes an archive of the volume to the standard output. The standard input has its manifest.
func exportVolume(ctx context.Context, env envconfig.Lookuper) error {
	c, err := environment.Read[environment.Export](ctx, env)
	if err != nil {
		return err
	}
	manifest, err := io.ReadAll(io.LimitReader(os.Stdin, archive.MaxManifest+1))
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	return archive.Write(ctx, os.Stdout, manifest, c.DataDir)
}

// importVolume fills the volume from an archive, before the other containers of the pod start.
func importVolume(ctx context.Context, env envconfig.Lookuper) error {
	c, err := environment.Read[environment.Import](ctx, env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dataplane.ImportTimeout)
	defer cancel()
	return archiveimport.Run(ctx, archiveimport.Options{
		URL: c.URL.Reveal(), AllowLoopback: c.AllowLoopback, Gate: c.Gate,
		Volume: archive.Volume{
			Dir:    c.DataDir,
			Limits: archive.Limits{Bytes: c.MaxBytes, Entries: dataplane.MaxImportEntries}, Sync: syncVolume,
		},
	})
}

// syncVolume makes what was written to a volume survive a loss of power.
func syncVolume(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(file.Fd())), file.Close()) //nolint:gosec // descriptors are small
}

// exitCode is that of the process.
func exitCode(err error) int {
	if failure, ok := errors.AsType[*archiveimport.Failure](err); ok {
		return failure.ExitCode
	}
	return 1
}

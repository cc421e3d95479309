package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/environment"
)

const (
	trustTimeout = 5 * time.Second
	// trustPause is the first wait between two attempts; it doubles up to maxTrustPause. The gate learns of the agent's
	// policy while the pod is made, so the first attempts are soon.
	trustPause    = 250 * time.Millisecond
	maxTrustPause = 10 * time.Second
	maxCABytes    = 64 << 10
	trustMode     = 0o444
)

// writeTrust writes the certificates of the system and that of the agent's CA, before the other containers of the pod
// start. It waits for the gate as long as it takes: without the CA, the agent cannot use its brokered secrets.
func writeTrust(ctx context.Context, env envconfig.Lookuper) error {
	c, err := environment.Read[environment.Trust](ctx, env)
	if err != nil {
		return err
	}
	roots, err := readRoots(rootFiles(c.RootsFile))
	if err != nil {
		return err
	}
	for pause := trustPause; ; pause = min(2*pause, maxTrustPause) {
		ca, err := fetchCA(ctx, c)
		if err == nil {
			return writeFile(c.CAFile, append(append(bytes.TrimRight(roots, "\n"), '\n'), ca...))
		}
		slog.WarnContext(ctx, "the gate has no certificate yet", "error", err.Error(), "retry_after", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rootFiles are where systems have the certificates that they trust: the platform's image, Debian and Alpine, Fedora,
// and macOS; or chosen, if that is not empty.
func rootFiles(chosen string) []string {
	if chosen != "" {
		return []string{chosen}
	}
	return []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}
}

// readRoots reads the first of the files that exists.
func readRoots(files []string) ([]byte, error) {
	for _, name := range files {
		roots, err := os.ReadFile(name) //nolint:gosec // names of this program
		if err == nil {
			return roots, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
	}
	return nil, fmt.Errorf("the system has no certificates in %q", files)
}

// fetchCA reads the certificate of the agent's CA. The gate knows the agent by the address of its pod.
func fetchCA(ctx context.Context, c environment.Trust) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.CAURL, http.NoBody)
	if err != nil {
		return nil, err
	}
	// Neither a proxy of the environment nor a redirect can lead elsewhere.
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.Host)}}
	client := http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	ca, err := io.ReadAll(io.LimitReader(res.Body, maxCABytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	if block, _ := pem.Decode(ca); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the answer is no certificate")
	}
	return ca, nil
}

// writeFile writes a file that is complete whenever it exists.
func writeFile(name string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".ca-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(trustMode), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), name)
}

//go:build unix

package buildcache

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// downloadTimeout is when compiling would have been as quick.
const downloadTimeout = 10 * time.Minute

// errNotPrebuilt means that there is no prebuilt binary to ask for.
var errNotPrebuilt = errors.New("no binary was published for these sources: the repository has no checksum of it")

// download downloads the binary of the present sources to target.
func (b *Builder) download(ctx context.Context, name, target string) error {
	want, err := b.checksum(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("timed out after %s", downloadTimeout))
	defer cancel()
	url := strings.TrimSuffix(b.URL, "/") + "/" + name
	b.Progress.WriteLine("Downloading " + b.Name + " from " + url + "...")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it is only read
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("download %s: %s", url, res.Status)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum, &counter{b: b, of: res.ContentLength}), res.Body)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("download %s: %w", url, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s has the checksum %s, but %s says %s", url, got, b.Checksums, want)
	}
	return nil
}

// checksum returns the checksum of the prebuilt binary with a name.
func (b *Builder) checksum(name string) (string, error) {
	file, err := os.Open(b.Checksums)
	if errors.Is(err, os.ErrNotExist) {
		return "", errNotPrebuilt
	}
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it is only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[1] == name {
			return fields[0], nil
		}
	}
	return "", errors.Join(lines.Err(), errNotPrebuilt)
}

// counter shows how much was downloaded.
type counter struct {
	b        *Builder
	done, of int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.done += int64(len(p))
	status := fmt.Sprintf("downloaded %d MB", c.done>>20)
	if c.of > 0 {
		status += fmt.Sprintf(" of %d MB", c.of>>20)
	}
	c.b.Progress.Update(status)
	return len(p), nil
}

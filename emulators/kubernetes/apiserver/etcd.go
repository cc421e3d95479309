package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// startEtcd runs one etcd member with its data in dir and returns it with the endpoint for clients.
//
// It listens on Unix sockets in dir, so no TCP port can conflict, and only users with access to dir can connect.
func startEtcd(ctx context.Context, dir string) (*embed.Etcd, string, error) {
	client, err := socket(dir, "etcd.sock")
	if err != nil {
		return nil, "", err
	}
	peer, err := socket(dir, "etcd-peer.sock")
	if err != nil {
		return nil, "", err
	}
	c := embed.NewConfig()
	c.Dir = filepath.Join(dir, "etcd")
	c.LogLevel = "error"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	// Advertised URLs must have a host and a port, although no other member dials them.
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "localhost:2379"}}
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false
	// The data must survive a killed process, but not a crash of the machine.
	c.UnsafeNoFsync = true
	// With a single member, an election needs no waiting; the default delays the start by a second.
	c.TickMs, c.ElectionMs = 10, 50
	c.QuotaBackendBytes = 4 << 30
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, client.String(), nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	etcd.Close()
	return nil, "", fmt.Errorf("wait for etcd: %w", err)
}

// socket returns the URL of a Unix socket in dir, relative to the working directory because the path of a socket is
// limited to about 100 bytes. It removes a socket that a killed process left.
func socket(dir, name string) (url.URL, error) {
	work, err := os.Getwd()
	if err != nil {
		return url.URL{}, fmt.Errorf("place etcd's socket: %w", err)
	}
	path, err := filepath.Rel(work, filepath.Join(dir, name))
	if err != nil {
		return url.URL{}, fmt.Errorf("place etcd's socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return url.URL{}, fmt.Errorf("remove an old socket: %w", err)
	}
	host, rest, nested := strings.Cut(path, "/")
	if nested {
		rest = "/" + rest
	}
	return url.URL{Scheme: "unix", Host: host, Path: rest}, nil // etcd joins host and path again
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/shared/dataplane/front"
)

const (
	frontStreams = 256
	frontKey     = "key"
	// frontHost is an address of the loopback interface on which the front's fixed port is free.
	frontHost = "127.61.7.4"
	// frontMemory is the limit of the front's container.
	frontMemory = 32 << 10 // KiB
	// streamStart is what a stream sends before it pauses.
	streamStart = 256 << 10
)

// measureFront compares the CPU time of a request through the front of an agent with that through the standard
// library's proxy, and the memory of the front's binary with its limit.
func measureFront(ctx context.Context, l *environment) (_ Report, err error) {
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}`)
	}))
	defer container.Close()
	cpu, err := measureFrontCPU(ctx, container)
	if err != nil {
		return Report{}, err
	}
	memory, err := measureFrontMemory(ctx, l)
	return Report{Rows: append([]Row{cpu}, memory...)}, err
}

func measureFrontCPU(ctx context.Context, container *httptest.Server) (Row, error) {
	target, err := url.Parse(container.URL)
	if err != nil {
		return Row{}, err
	}
	port, err := strconv.Atoi(target.Port())
	if err != nil {
		return Row{}, err
	}
	f, err := front.New(front.Options{
		Hostname: "agent." + domain, Port: port,
		Credentials: front.Credentials{Username: "admin", Password: "password", APIKey: frontKey},
	})
	if err != nil {
		return Row{}, err
	}
	defer f.Close()
	c := comparison{host: "agent." + domain, key: frontKey, floor: target}
	row, err := c.measure(ctx, f.Serve)
	row.ID, row.What, row.Most = "P13", "a request through a front", 1.3
	return row, err
}

// measureFrontMemory measures the front's binary with the settings of the pod template.
func measureFrontMemory(ctx context.Context, l *environment) (_ []Row, err error) {
	if l.noCluster { // then nothing is built
		return nil, nil
	}
	binaries, err := dataplane.Build(ctx)
	if err != nil {
		return nil, err
	}
	release := make(chan struct{})
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), streamStart))
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer container.Close()
	defer close(release)
	_, port, err := net.SplitHostPort(container.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(frontHost, "8080")
	p, err := process.Start(ctx, process.Options{
		Name: "front", Path: filepath.Join(binaries, "front"), LogFile: filepath.Join(l.dir, "front.log"),
		Env: []string{
			"LISTEN_HOST=" + frontHost, "AGENT_PORT=" + port, "DASHBOARD_USERNAME=admin", "DASHBOARD_PASSWORD=password",
			"API_SERVER_KEY=" + frontKey, "GOMEMLIMIT=24MiB",
		},
		Ready: process.Listening(address),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	client := &http.Transport{DisableCompression: true}
	defer client.CloseIdleConnections()
	for range frontStreams {
		body, err := openStream(ctx, client, address)
		if err != nil {
			return nil, err
		}
		defer body.Close() //nolint:errcheck // the stream has no end
	}
	resident, err := residentKiB(p.Pid())
	return []Row{{
		ID: "P13", What: fmt.Sprintf("memory of a front with %d streams", frontStreams), Ours: resident,
		Limit: frontMemory, Unit: "KiB", Most: 1, Note: "least possible: the limit of its container", Timed: true,
	}}, err
}

// openStream begins a stream and reads what it sends before it pauses.
func openStream(ctx context.Context, client *http.Transport, address string) (io.Closer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/stream", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+frontKey)
	res, err := client.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(res.Body, make([]byte, streamStart)); err != nil || res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("a stream through the front got status %d: %w", res.StatusCode, err),
			res.Body.Close())
	}
	return res.Body, nil
}

// residentKiB returns the resident memory of a process.
func residentKiB(pid int) (float64, error) { return memoryKiB(pid, "VmRSS:") }

// peakKiB returns the largest resident memory that a process has had.
func peakKiB(pid int) (float64, error) { return memoryKiB(pid, "VmHWM:") }

func memoryKiB(pid int, field string) (float64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	_, rest, found := bytes.Cut(status, []byte(field))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("read the memory of a process: its status has no %s", field)
	}
	return strconv.ParseFloat(string(fields[0]), 64)
}

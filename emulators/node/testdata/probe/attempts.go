package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// attempt is one way out to try.
type attempt struct {
	Network, Address string
	// TLS makes it a connection of TLS with ServerName, which may be empty.
	TLS        bool
	ServerName string
	ALPN       []string
	// Send is sent, and what comes back is read until the connection ends or enough was read.
	Send []byte
}

// outcome is what an attempt led to.
type outcome struct {
	Connected bool
	Got       []byte
	Error     string
}

const (
	attemptTime = 5 * time.Second
	enough      = 4 << 10 // bytes
)

// try makes all attempts of a request concurrently.
func try(w http.ResponseWriter, r *http.Request) {
	var all []attempt
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	outcomes := make([]outcome, len(all))
	var running sync.WaitGroup
	for i, a := range all {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(r.Context(), attemptTime)
			defer cancel()
			err := a.run(ctx, &outcomes[i])
			outcomes[i].Error = text(err)
		})
	}
	running.Wait()
	writeJSON(w, outcomes)
}

func (a attempt) run(ctx context.Context, o *outcome) error {
	conn, err := new(net.Dialer).DialContext(ctx, a.Network, a.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if a.TLS {
		secured := tls.Client(conn, &tls.Config{
			ServerName: a.ServerName, NextProtos: a.ALPN, InsecureSkipVerify: true,
		})
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secured
	}
	o.Connected = true
	if _, err := conn.Write(a.Send); err != nil {
		return err
	}
	buffer := make([]byte, enough)
	for len(o.Got) < enough {
		n, err := conn.Read(buffer)
		o.Got = append(o.Got, buffer[:n]...)
		datagram := strings.HasPrefix(a.Network, "udp") || strings.HasPrefix(a.Network, "ip")
		if err == io.EOF || datagram && n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch requests a URL as programs do: with the system's names and certificates. The header's value is that of a
// variable.
func fetch(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 4*attemptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.FormValue("url"), nil)
	if err == nil {
		if name := r.FormValue("variable"); name != "" {
			req.Header.Set("Authorization", "Bearer "+os.Getenv(name))
		}
		var res *http.Response
		if res, err = http.DefaultClient.Do(req); err == nil {
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			writeJSON(w, map[string]any{"status": res.StatusCode, "body": string(body)})
			return
		}
	}
	writeJSON(w, map[string]any{"error": err.Error()})
}

// mask hides what search looks for, so that the request does not put it into the memory that is searched.
const mask = 0x55

// search looks for a masked value in everything that the process can read, and answers where it is and how much was
// read of each kind.
func search(w http.ResponseWriter, r *http.Request) {
	masked, err := io.ReadAll(r.Body)
	if err != nil || len(masked) == 0 {
		http.Error(w, "want a masked value", http.StatusBadRequest)
		return
	}
	read := map[string]int64{}
	var found []string
	look := func(kind, where string, content []byte) {
		read[kind] += int64(len(content))
		if containsMasked(content, masked) {
			found = append(found, where)
		}
	}
	look("environment", "the environment", []byte(strings.Join(os.Environ(), "\n")))
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case path == "/sys" || path == "/dev" || d.Name() == "task" && strings.HasPrefix(path, "/proc/"):
			return filepath.SkipDir // devices, and threads, which have the files of their process
		case d.Type().IsRegular() && !isMemory(path):
			content, _ := readSome(path)
			look("files", path, content)
		}
		return nil
	})
	eachOfMemory(func(content []byte) { look("memory", "the process's memory", content) })
	writeJSON(w, map[string]any{"found": found, "read": read})
}

// isMemory reports whether a file has another process's memory or never ends.
func isMemory(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(path, "/proc/") && (name == "mem" || name == "kcore" || name == "kmsg" || name == "pagemap")
}

// readSome reads a file, and gives up on one that makes it wait.
func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(time.Second)) // most files have no deadlines
	return io.ReadAll(io.LimitReader(f, 64<<20))
}

// eachOfMemory reads the memory of this process, piece by piece.
func eachOfMemory(look func([]byte)) {
	maps, _ := os.ReadFile("/proc/self/maps")
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return
	}
	defer memory.Close()
	buffer := make([]byte, 1<<20)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue // it has nothing that this process wrote
		}
		for at := from; at < to; {
			n, err := memory.ReadAt(buffer[:min(int64(len(buffer)), to-at)], at)
			look(buffer[:n])
			if err != nil || n == 0 {
				break
			}
			at += int64(n)
		}
	}
}

// containsMasked reports whether a content has a masked value, without unmasking it.
func containsMasked(content, masked []byte) bool {
	for at := 0; at+len(masked) <= len(content); at++ {
		next := bytes.IndexByte(content[at:], masked[0]^mask)
		if next < 0 {
			return false
		}
		at += next
		i := 0
		for i < len(masked) && at+i < len(content) && content[at+i]^mask == masked[i] {
			i++
		}
		if i == len(masked) {
			return true
		}
	}
	return false
}

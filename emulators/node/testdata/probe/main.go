// Command probe is the sample agent, which also reports how it runs: what its process may do, and what it can reach.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agents.example/controlplane/shared/dataplane/sampleagent"
)

func main() {
	if len(os.Args) > 1 {
		command(os.Args[1], os.Args[2:])
		return
	}
	if mode() == "crash" {
		log.Fatal("told to crash")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	address := ":" + os.Getenv("PORT")
	if mode() == "unready" {
		address = ":1025" // not where the probes of the pod look
	}
	handler, err := routes()
	if err != nil {
		log.Fatal(err)
	}
	if mode() == "exits" {
		handler = exits(handler)
	}
	go func() { log.Fatal(http.ListenAndServe(address, handler)) }()
	log.Print("the probe runs")
	<-stop
}

// mode is what is wrong with the agent: by its variables, or by the name of its program, as in probe-exits.
func mode() string {
	if m := os.Getenv("MODE"); m != "" {
		return m
	}
	_, m, _ := strings.Cut(filepath.Base(os.Args[0]), "-")
	return m
}

// exits is an agent that exits when it has work.
func exits(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			log.Fatal("exits under load")
		}
		handler.ServeHTTP(w, r)
	})
}

// command prints an answer for `kubectl exec`.
func command(name string, addresses []string) {
	if name == "kernel" {
		fmt.Println(kernel())
		return
	}
	for _, address := range addresses {
		fmt.Println(address, dial("tcp", address)["error"])
	}
}

func routes() (http.Handler, error) {
	sample, err := sampleagent.New(sampleagent.Options{DataDir: "/data"})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", sample)
	mux.HandleFunc("GET /v1/process", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, process()) })
	mux.HandleFunc("GET /v1/dial", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, dial(r.FormValue("network"), r.FormValue("address")))
	})
	mux.HandleFunc("GET /v1/lookup", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("name"))
		writeJSON(w, map[string]any{"addresses": addresses, "error": text(err)})
	})
	mux.HandleFunc("GET /v1/variable", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, os.Getenv(r.FormValue("name")))
	})
	mux.HandleFunc("GET /v1/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join("/data", filepath.Base(r.FormValue("name"))))
	})
	mux.HandleFunc("PUT /v1/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(filepath.Join("/data", filepath.Base(r.FormValue("name"))), content, 0o600)
		}
		writeJSON(w, map[string]string{"error": text(err)})
	})
	mux.HandleFunc("POST /v1/attempts", try)
	mux.HandleFunc("GET /v1/fetch", fetch)
	mux.HandleFunc("POST /v1/search", search)
	mux.HandleFunc("POST /v1/exhaust", func(http.ResponseWriter, *http.Request) { exhaust() })
	return mux, nil
}

func writeJSON(w io.Writer, value any) {
	_ = json.NewEncoder(w).Encode(value) // the client reads what arrives
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// process says who this process is, what it may do and where it may write.
func process() map[string]any {
	status, _ := os.ReadFile("/proc/self/status") // an error leaves fields out, which the test sees
	fields := map[string]any{"pid": os.Getpid(), "kernel": kernel()}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp":
			fields[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	for name, dir := range map[string]string{"root": "/", "tmp": "/tmp", "data": "/data"} {
		file, err := os.CreateTemp(dir, "probe-")
		if err == nil {
			err = errors.Join(file.Close(), os.Remove(file.Name()))
		}
		fields["write "+name] = text(err)
	}
	if info, err := os.Stat("/data"); err == nil {
		owner := info.Sys().(*syscall.Stat_t)
		fields["data"] = info.Mode().String() + " " + strconv.Itoa(int(owner.Uid)) + ":" + strconv.Itoa(int(owner.Gid))
	}
	fields["setuid"] = text(syscall.Setuid(0))
	fields["mount"] = text(syscall.Mount("tmpfs", "/tmp", "tmpfs", 0, ""))
	for _, file := range []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"} {
		if limit, err := os.ReadFile(file); err == nil {
			fields["memory limit"] = strings.TrimSpace(string(limit))
		}
	}
	return fields
}

func kernel() string {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return err.Error()
	}
	var release strings.Builder
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	return release.String()
}

// dial tries to connect, or to exchange a datagram.
func dial(network, address string) map[string]any {
	const timeout = 5 * time.Second
	began := time.Now()
	conn, err := net.DialTimeout(network, address, timeout)
	if err == nil {
		_ = conn.Close()
	}
	return map[string]any{"error": text(err), "milliseconds": time.Since(began).Milliseconds()}
}

// exhaust uses memory until the kernel ends the process.
func exhaust() {
	const chunk = 64 << 20
	var all [][]byte
	for {
		b := make([]byte, chunk)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		runtime.KeepAlive(all)
	}
}

package front

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// MemoryMetrics returns a handler that reports the memory in use in Prometheus' text format. In a sandbox, which the
// node cannot look into, the file /proc/meminfo describes the whole sandbox.
func MemoryMetrics(meminfo string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		used, err := readMemory(meminfo)
		if err != nil {
			http.Error(w, "the memory in use is unknown", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprintf(w, "# HELP agent_memory_used_bytes Memory in use in the agent's sandbox.\n"+
			"# TYPE agent_memory_used_bytes gauge\nagent_memory_used_bytes %d\n", used)
	})
}

// readMemory returns the memory that is neither free nor reclaimable.
func readMemory(meminfo string) (used uint64, err error) {
	file, err := os.Open(meminfo)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // read only
	values := map[string]uint64{}
	for lines := bufio.NewScanner(io.LimitReader(file, 64<<10)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if kib, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			values[strings.TrimSuffix(fields[0], ":")] = kib << 10
		}
	}
	total, available := values["MemTotal"], values["MemAvailable"]
	if total == 0 || available > total {
		return 0, fmt.Errorf("%s has no MemTotal and MemAvailable", meminfo)
	}
	return total - available, nil
}
